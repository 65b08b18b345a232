#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "combu/telemetry.hpp"

namespace combu {

// How far an attempt's log has been told: the next reading goes on from there.
class LogPlace {
 public:
  // What the next reading asks for. What came at almost the same moment is asked for once more: of two
  // streams it may be written down in the other order.
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
  std::optional<Instant> begin_;  // of what has been told; nullopt: nothing
  Instant until_{};
  Counts recent_;  // told: how many pieces of that moment
  Counts known_;   // of these, those that this reading has yet to meet
};

}  // namespace combu
