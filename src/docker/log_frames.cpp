#include "docker/log_frames.hpp"

#include <algorithm>
#include <utility>

namespace combu::docker {

void LogFrames::read_header() {
  const unsigned char kind = header_[0];
  if (kind > 3 || header_[1] != 0 || header_[2] != 0 || header_[3] != 0) {
    throw Error(ErrorKind::corrupt, "", "the log's stream has an invalid frame header");
  }
  stream_ = kind < 2 ? LogStream::out : LogStream::err;
  left_ = 0;
  for (std::size_t i = 4; i < k_header_size; ++i) left_ = left_ << 8U | header_[i];
  header_filled_ = 0;
}

void LogFrames::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    if (left_ > 0) {
      const std::size_t size = std::min(left_, bytes.size());
      left_ -= size;
      add_text(bytes.substr(0, size));
      bytes.remove_prefix(size);
      continue;
    }
    header_[header_filled_++] = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    if (header_filled_ == k_header_size) read_header();
  }
}

void LogFrames::add_text(std::string_view bytes) {
  if (!timed_) return on_piece_({.stream = stream_, .text = bytes});
  message_.feed(stream_, bytes);
  if (left_ == 0) message_.end(stream_);
}

}  // namespace combu::docker
