#pragma once
// The progress of the run for display: which trials are starting and running, and how much longer the run
// will take.

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "combu/run.hpp"

namespace combu {

// Belongs to one thread. `run` must outlive the object.
class RunProgress {
 public:
  RunProgress(const Run& run, Until until, std::optional<Slots> capacity);

  // Called when this process begins to drive the run.
  void begin(Instant now);
  // Sets the state in which an earlier process left a trial. `is_awaited`: Planner::is_waited_for().
  void restore(TrialIndex trial, const RestoredTrial& restored, bool is_awaited, Instant now);
  void observe(const Fact& fact, bool is_awaited, Instant now);
  // Sets why a starting trial does not run yet; empty: unknown.
  void set_pending_reason(TrialIndex trial, const std::string& reason);
  // Begins or ends a pause, which does not count as working time.
  void set_paused(bool is_paused, Instant now);

  // Returns a snapshot. The caller sets the members that only the planner knows: counts, settings and held
  // slots. `unfinished`: Planner::unfinished().
  [[nodiscard]] Snapshot snapshot(std::size_t unfinished, Instant now) const;
  // Returns the facts about trials that ended without success, in the order in which the facts arrived.
  [[nodiscard]] std::vector<Fact> take_unsuccessful() { return std::move(unsuccessful_); }

 private:
  struct UnderWay {
    TrialIndex trial;
    Instant begun_at;               // when the planner commanded the start
    std::optional<Instant> ran_at;  // when the attempt began to run; set only while it runs
  };
  // Sums over the trials that have run during this process and have ended.
  struct Ended {
    std::size_t count = 0;
    Seconds took{0};    // sum of the trials' durations
    Instant last_at{};  // when the last of these trials ended
    Seconds worked{0};  // the value of worked() at the moment last_at
  };
  void observe_work(const Fact& fact, Instant now);
  // Returns nullptr if the trial is not under way.
  [[nodiscard]] UnderWay* find_under_way(TrialIndex trial);
  void set_under_way(const UnderWay& it);
  void erase_under_way(TrialIndex trial);
  [[nodiscard]] std::vector<RunningTrial> few_running(Instant now) const;
  [[nodiscard]] std::vector<PendingTrials> pending() const;
  [[nodiscard]] Seconds worked(Instant now) const;
  [[nodiscard]] std::optional<Seconds> left(std::size_t unfinished, Instant now) const;

  const Run& run_;
  Until until_;
  std::optional<Slots> capacity_;
  Instant began_{};
  Seconds before_{0};  // seconds from the beginning of the run to the start of this process
  // Awaited trials that have been started and have not ended, in no order. Each snapshot reads all of them.
  std::vector<UnderWay> under_way_;
  std::unordered_map<TrialIndex, std::size_t> places_;  // of the trials in under_way_
  Ended ended_;
  std::optional<Instant> paused_since_;
  Instant::duration paused_for_{0};
  std::vector<TrialIndex> starting_;
  std::map<TrialIndex, std::string> pending_reasons_;  // of trials in starting_
  std::size_t started_ = 0;
  std::vector<bool> was_started_;
  std::vector<bool> ran_here_;
  std::vector<Fact> unsuccessful_;
};

}  // namespace combu
