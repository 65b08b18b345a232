#pragma once
// Takes a container's multiplexed log apart.

#include <cstddef>
#include <functional>
#include <string_view>

#include "combu/engine.hpp"

namespace combu::docker {

// Each frame has a header of eight bytes: the stream (0 and 1 out, 2 err, 3 the engine's own errors), three
// zeros, the length as a big-endian number (Docker Engine API, ContainerAttach, "Stream format").
class LogFrames {
 public:
  using Tell = std::function<void(LogStream, std::string_view)>;
  explicit LogFrames(Tell tell) : tell_(std::move(tell)) {}

  // Throws Error(corrupt) with an empty subject.
  void feed(std::string_view bytes);

 private:
  static constexpr std::size_t k_header_size = 8;
  void read_header();

  Tell tell_;
  unsigned char header_[k_header_size] = {};
  std::size_t header_filled_ = 0;
  std::size_t left_ = 0;  // of the frame's body
  LogStream stream_ = LogStream::out;
};

}  // namespace combu::docker
