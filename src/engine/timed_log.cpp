#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "combu/engine.hpp"

namespace combu {
namespace {

// Maximum bytes of a timestamp. In RFC 3339 format with nanoseconds and a time zone, a timestamp takes 35
// bytes.
constexpr std::size_t k_timestamp_max = 64;

Error no_timestamp() {
  return {ErrorKind::corrupt, "", "the log's lines have no timestamps, although combu requested them"};
}

}  // namespace

void TimedMessage::feed(LogStream stream, std::string_view bytes) {
  if (at_) return feed_text(stream, bytes);
  const std::string_view head = bytes.substr(0, k_timestamp_max);
  const std::size_t blank = std::min(head.find(' '), head.size());
  held_ += head.substr(0, blank);
  const bool is_whole = blank < head.size();
  if (is_whole) at_ = parse_timestamp(held_);
  if (!at_ && (is_whole || held_.size() >= k_timestamp_max)) throw no_timestamp();
  if (!at_) return;
  held_.clear();
  feed_text(stream, bytes.substr(blank + 1));
}

void TimedMessage::feed_text(LogStream stream, std::string_view text) {
  while (!text.empty()) {
    const std::string_view part = text.substr(0, k_timed_piece_max - held_.size());
    held_ += part;
    text.remove_prefix(part.size());
    if (held_.size() < k_timed_piece_max) return;
    on_piece_({.stream = stream, .text = held_, .at = *at_});
    held_.clear();
    has_delivered_ = true;
  }
}

void TimedMessage::end(LogStream stream) {
  if (!at_) throw no_timestamp();
  if (!held_.empty() || !has_delivered_) on_piece_({.stream = stream, .text = held_, .at = *at_});
  held_.clear();
  at_.reset();
  has_delivered_ = false;
}

void TimedLines::feed(std::string_view bytes) {
  for (std::size_t end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
    message_.feed(LogStream::out, bytes.substr(0, end + 1));
    message_.end(LogStream::out);
    bytes.remove_prefix(end + 1);
  }
  if (!bytes.empty()) message_.feed(LogStream::out, bytes);
}

void TimedLines::end() {
  if (message_.is_open()) message_.end(LogStream::out);
}

}  // namespace combu
