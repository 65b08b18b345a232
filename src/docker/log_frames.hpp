#pragma once
// Takes a container's multiplexed log apart.

#include <cstddef>
#include <string>
#include <string_view>

#include "combu/engine.hpp"

namespace combu::docker {

// Each frame has a header of eight bytes: the stream (0 and 1 out, 2 err, 3 the engine's own errors), three
// zeros, the length as a big-endian number (Docker Engine API, ContainerAttach, "Stream format").
class LogFrames {
 public:
  // `timed`: each frame begins with a moment and a blank, and is told whole.
  LogFrames(LogTell tell, bool timed) : tell_(std::move(tell)), timed_(timed) {}

  // Throws Error(corrupt) with an empty subject.
  void feed(std::string_view bytes);

 private:
  static constexpr std::size_t k_header_size = 8;
  void read_header();
  void take(std::string_view bytes);

  LogTell tell_;
  bool timed_;
  unsigned char header_[k_header_size] = {};
  std::size_t header_filled_ = 0;
  std::size_t left_ = 0;  // of the frame's body
  LogStream stream_ = LogStream::out;
  std::string body_;  // of a timed one, as far as it has come
};

// The log of a container that has a terminal is not multiplexed. Tells its lines with their times.
class TimedLines {
 public:
  explicit TimedLines(LogTell tell) : tell_(std::move(tell)) {}
  void feed(std::string_view bytes);
  // A last line without an end.
  void end();

 private:
  LogTell tell_;
  std::string line_;
};

}  // namespace combu::docker
