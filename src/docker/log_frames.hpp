#pragma once
// Takes a container's multiplexed log apart.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "combu/engine.hpp"

namespace combu::docker {

// Maximum size in bytes of a piece that has a time. A longer text is told in pieces of this size and a rest,
// all with the same time. The cuts depend on the text alone: a later reading of the log has the same pieces.
inline constexpr std::size_t k_timed_piece_max = std::size_t{64} << 10U;

// One message of the engine's log: a moment, a blank, a text. Holds at most one piece.
class TimedMessage {
 public:
  explicit TimedMessage(LogTell tell) : tell_(std::move(tell)) {}

  // The next bytes of it. Throws Error(corrupt) with an empty subject.
  void feed(LogStream stream, std::string_view bytes);
  // Tells the rest of the text; a message of an empty text has one empty piece. What is fed next is of
  // another message. Throws Error(corrupt) with an empty subject if the message has no moment.
  void end(LogStream stream);
  [[nodiscard]] bool is_open() const { return at_ || !held_.empty(); }

 private:
  void feed_text(LogStream stream, std::string_view text);

  LogTell tell_;
  std::optional<Instant> at_;
  std::string held_;  // of the moment, then of the text
  bool has_told_ = false;
};

// Each frame has a header of eight bytes: the stream (0 and 1 out, 2 err, 3 the engine's own errors), three
// zeros, the length as a big-endian number (Docker Engine API, ContainerAttach, "Stream format").
class LogFrames {
 public:
  // `timed`: each frame is one TimedMessage.
  LogFrames(const LogTell& tell, bool timed) : tell_(tell), message_(tell), timed_(timed) {}

  // Throws Error(corrupt) with an empty subject.
  void feed(std::string_view bytes);

 private:
  static constexpr std::size_t k_header_size = 8;
  void read_header();
  void take(std::string_view bytes);

  LogTell tell_;
  TimedMessage message_;
  bool timed_;
  unsigned char header_[k_header_size] = {};
  std::size_t header_filled_ = 0;
  std::size_t left_ = 0;  // of the frame's body
  LogStream stream_ = LogStream::out;
};

// The log of a container that has a terminal is not multiplexed. Each line is one TimedMessage.
class TimedLines {
 public:
  explicit TimedLines(LogTell tell) : message_(std::move(tell)) {}

  // Throws Error(corrupt) with an empty subject.
  void feed(std::string_view bytes);
  // A last line without an end.
  void end();

 private:
  TimedMessage message_;
};

}  // namespace combu::docker
