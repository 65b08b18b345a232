#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "combu/telemetry.hpp"

namespace combu {

// The position in an attempt's log up to which the log has been passed on. The next reading continues there.
class LogPlace {
 public:
  // Returns the options of the next reading. The reading repeats the last k_log_disorder_max of the log,
  // since the pieces of two streams may be stored in a different order.
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

  // Returns true if the piece has not been passed on yet, and counts it as passed on.
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
  std::optional<Instant> begin_;  // time of the first piece that was passed on; nullopt: none
  Instant until_{};
  Counts recent_;  // number of pieces that were passed on, by time and stream
  Counts known_;   // pieces of `recent_` that this reading has yet to meet
};

}  // namespace combu
