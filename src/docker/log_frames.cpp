#include "docker/log_frames.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace combu::docker {
namespace {

LogPiece timed_piece(LogStream stream, std::string_view body) {
  const std::size_t blank = body.find(' ');
  const std::optional<Instant> at =
      blank == std::string_view::npos ? std::nullopt : parse_moment(body.substr(0, blank));
  if (!at) throw Error(ErrorKind::corrupt, "", "the log's lines have no times, though these were asked for");
  return {.stream = stream, .text = body.substr(blank + 1), .at = *at};
}

}  // namespace

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
      left_ -= size;
      take(bytes.substr(0, size));
      bytes.remove_prefix(size);
      continue;
    }
    header_[header_filled_++] = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    if (header_filled_ == k_header_size) read_header();
  }
}

void LogFrames::take(std::string_view bytes) {
  if (!timed_) return tell_({.stream = stream_, .text = bytes});
  if (!body_.empty() || left_ > 0) {
    body_ += bytes;
    bytes = body_;
  }
  if (left_ > 0) return;
  tell_(timed_piece(stream_, bytes));
  body_.clear();
}

void TimedLines::feed(std::string_view bytes) {
  for (std::size_t end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
    line_ += bytes.substr(0, end + 1);
    bytes.remove_prefix(end + 1);
    tell_(timed_piece(LogStream::out, line_));
    line_.clear();
  }
  line_ += bytes;
}

void TimedLines::end() {
  if (!line_.empty()) tell_(timed_piece(LogStream::out, std::exchange(line_, {})));
}

}  // namespace combu::docker
