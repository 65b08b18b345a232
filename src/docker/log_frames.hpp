#pragma once
// Splits the log of a container, in which the engine multiplexes the output streams.

#include <cstddef>
#include <string_view>

#include "combu/engine.hpp"

namespace combu::docker {

// Splits a log into frames. Each frame has a header of eight bytes: the stream, three zeros, and the length
// as a big-endian number. Streams 0 and 1 are standard output, 2 is standard error, and 3 is for errors of
// the engine itself. The source is the Docker Engine API, ContainerAttach, "Stream format".
class LogFrames {
 public:
  // `timed`: true if each frame is one message that begins with a timestamp.
  LogFrames(const OnLogPiece& on_piece, bool timed)
      : on_piece_(on_piece), message_(on_piece), timed_(timed) {}

  // Throws Error(corrupt) with an empty subject if the log's format is invalid.
  void feed(std::string_view bytes);
  // Returns the number of bytes of the current frame's body that have not been fed. During a call of
  // `on_piece`, the number does not include the bytes of the piece.
  [[nodiscard]] std::size_t left() const { return left_; }
  // True if the fed bytes end within a frame.
  [[nodiscard]] bool is_open() const { return left_ > 0 || header_filled_ > 0; }

 private:
  static constexpr std::size_t k_header_size = 8;
  void read_header();
  void add_text(std::string_view bytes);

  OnLogPiece on_piece_;
  TimedMessage message_;
  bool timed_;
  unsigned char header_[k_header_size] = {};
  std::size_t header_filled_ = 0;
  std::size_t left_ = 0;  // remaining bytes of the frame's body
  LogStream stream_ = LogStream::out;
};

}  // namespace combu::docker
