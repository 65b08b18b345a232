#pragma once
// Splits the log of a container, in which the engine multiplexes the output streams.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "combu/engine.hpp"

namespace combu::docker {

// Maximum size in bytes of a piece of a log with timestamps. A longer text is split into pieces of this size
// and a last, smaller piece, all with the same timestamp. The cuts depend only on the text, so each reading
// of the log returns the same pieces.
inline constexpr std::size_t k_timed_piece_max = std::size_t{64} << 10U;

// Parses messages of the engine's log. Each message is a timestamp, a blank and a text. Buffers at most one
// piece.
class TimedMessage {
 public:
  explicit TimedMessage(OnLogPiece on_piece) : on_piece_(std::move(on_piece)) {}

  // Adds bytes of the message. Throws Error(corrupt) with an empty subject if the timestamp cannot be parsed.
  void feed(LogStream stream, std::string_view bytes);
  // Ends the message and passes on the rest of its text. If the message has no text, passes on one empty
  // piece. The next feed() begins another message. Throws Error(corrupt) with an empty subject if the message
  // has no timestamp.
  void end(LogStream stream);
  [[nodiscard]] bool is_open() const { return at_ || !held_.empty(); }

 private:
  void feed_text(LogStream stream, std::string_view text);

  OnLogPiece on_piece_;
  std::optional<Instant> at_;
  // Before the message's timestamp is complete, its bytes; afterwards, the text that was not passed on yet.
  std::string held_;
  bool has_delivered_ = false;
};

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

// Splits the log of a container with a terminal, because the streams of such a log are not multiplexed. Each
// line is one message that begins with a timestamp.
class TimedLines {
 public:
  explicit TimedLines(OnLogPiece on_piece) : message_(std::move(on_piece)) {}

  // Throws Error(corrupt) with an empty subject if the log's format is invalid.
  void feed(std::string_view bytes);
  // Passes on a last line that has no line end.
  void end();

 private:
  TimedMessage message_;
};

}  // namespace combu::docker
