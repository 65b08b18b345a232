#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <unordered_map>
#include <utility>

#include "combu/base.hpp"
#include "combu/plan.hpp"
#include "combu/schedule.hpp"

namespace combu {

// Schedules the collection of the outputs that running attempts have written so far. An attempt's partial
// collection is never under way while the attempt's final outputs are collected, or while the attempt is
// being stopped. The reason: while an engine copies files out of a container, the engine cannot stop this
// container (moby: daemon/archive.go holds the container's lock). Belongs to one thread.
class PartialCollection {
 public:
  struct Take {
    TrialIndex trial;
    int attempt;
    std::stop_source stop;
  };

  explicit PartialCollection(Seconds every) : every_(std::chrono::duration_cast<Instant::duration>(every)) {}

  // Call this when the attempt has begun to run.
  void begin(TrialIndex trial, int attempt, Instant now) {
    running_[trial] = attempt;
    due_.emplace(now + every_, std::pair(trial, attempt));
  }

  // Call this when the attempt has ended or is about to end. Cancels the attempt's partial collection.
  void end(TrialIndex trial) {
    running_.erase(trial);
    if (const auto at = under_way_.find(trial); at != under_way_.end()) at->second.stop.request_stop();
  }

  // Returns the next collection that is due.
  std::optional<Take> next(Instant now) {
    while (under_way_.size() < k_under_way_max && !due_.empty() && due_.begin()->first <= now) {
      const auto [trial, attempt] = std::pair(due_.extract(due_.begin()).mapped());
      if (!is_running(trial, attempt)) continue;
      const auto [at, is_new] = under_way_.emplace(trial, UnderWay{.attempt = attempt});
      if (!is_new) {  // the collection of the trial's earlier attempt has not ended yet
        due_.emplace(now + every_, std::pair(trial, attempt));
        continue;
      }
      return Take{.trial = trial, .attempt = attempt, .stop = at->second.stop};
    }
    return std::nullopt;
  }

  // True if the collection of the final outputs has to wait for a partial collection. In this case, the
  // partial collection is cancelled, and done() returns `command` later.
  bool holds_back(const CollectCommand& command) {
    const auto at = under_way_.find(command.trial);
    if (at == under_way_.end()) return false;
    at->second.stop.request_stop();
    at->second.held = command;
    return true;
  }

  struct Done {
    std::optional<CollectCommand> held;
    // True if this was the first partial collection of the attempt that failed. A cancelled collection does
    // not count.
    bool is_first_fault = false;
  };
  // Call this when a partial collection of the trial has ended.
  Done done(TrialIndex trial, bool failed, Instant now) {
    UnderWay was = std::move(under_way_.extract(trial).mapped());
    const bool runs = is_running(trial, was.attempt);
    if (runs) due_.emplace(now + every_, std::pair(trial, was.attempt));
    Done done{.held = was.held};
    if (failed && runs) done.is_first_fault = faulty_.emplace(trial, was.attempt).second;
    return done;
  }

  static constexpr std::size_t k_under_way_max = 2;

 private:
  struct UnderWay {
    int attempt;
    std::stop_source stop = {};
    std::optional<CollectCommand> held = std::nullopt;
  };

  [[nodiscard]] bool is_running(TrialIndex trial, int attempt) const {
    const auto at = running_.find(trial);
    return at != running_.end() && at->second == attempt;
  }

  Instant::duration every_;
  std::unordered_map<TrialIndex, int> running_;  // by trial: its running attempt
  std::multimap<Instant, std::pair<TrialIndex, int>> due_;
  std::unordered_map<TrialIndex, UnderWay> under_way_;
  std::set<std::pair<TrialIndex, int>> faulty_;
};

}  // namespace combu
