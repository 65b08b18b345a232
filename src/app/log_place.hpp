#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "combu/telemetry.hpp"

namespace combu {

// The position up to which an attempt's log has been passed to its sink. The next reading continues at this
// position.
class LogPlace {
 public:
  // Returns the options of the next reading. The reading begins k_log_disorder_max before the position, since
  // pieces of the two streams may be stored in another order than that of their timestamps.
  [[nodiscard]] LogOptions next(const LogOptions& wanted) {
    known_ = recent_;
    LogOptions options = wanted;
    options.timed = true;
    if (!begin_) return options;
    options.tail.reset();
    options.since = std::max<Instant>(*begin_, until_ - k_log_disorder_max);
    return options;
  }

  [[nodiscard]] bool has_begun() const { return begin_.has_value(); }

  // If the piece has not been passed to the sink yet, counts the piece as passed and returns true.
  [[nodiscard]] bool is_new(const LogPiece& piece) {
    const std::pair timestamp(piece.at, piece.stream);
    const auto known = known_.find(timestamp);
    if (known != known_.end() && known->second > 0) {
      --known->second;
      return false;
    }
    begin_ = std::min(begin_.value_or(piece.at), piece.at);
    until_ = std::max(until_, piece.at);
    ++recent_[timestamp];
    recent_.erase(recent_.begin(), recent_.lower_bound({until_ - k_log_disorder_max, LogStream::out}));
    return true;
  }

 private:
  using Counts = std::map<std::pair<Instant, LogStream>, std::size_t>;
  // timestamp of the first piece that was passed to the sink; nullopt: no piece
  std::optional<Instant> begin_;
  Instant until_{};
  // By timestamp and stream: number of pieces that were passed to the sink, for the last k_log_disorder_max
  // before `until_`.
  Counts recent_;
  Counts known_;  // the part of `recent_` that the present reading has not repeated yet
};

}  // namespace combu
