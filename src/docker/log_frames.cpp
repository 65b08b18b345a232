#include "docker/log_frames.hpp"

#include <algorithm>
#include <cstdint>

namespace combu::docker {

void LogFrames::read_header() {
  const unsigned char kind = header_[0];
  if (kind > 3 || header_[1] != 0 || header_[2] != 0 || header_[3] != 0) {
    throw Error(ErrorKind::corrupt, "", "the log's stream makes no sense");
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
      tell_(stream_, bytes.substr(0, size));
      bytes.remove_prefix(size);
      left_ -= size;
      continue;
    }
    header_[header_filled_++] = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    if (header_filled_ == k_header_size) read_header();
  }
}

}  // namespace combu::docker
