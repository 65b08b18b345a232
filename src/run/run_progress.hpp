#pragma once
// How far the run has come, for a person: which trials start and run, and how long the rest will take.

#include <cstddef>
#include <optional>
#include <unordered_map>
#include <vector>

#include "combu/run.hpp"

namespace combu {

// Belongs to one thread. `run` outlives it.
class RunProgress {
 public:
  RunProgress(const Run& run, Until until, std::optional<Slots> capacity);

  // This process begins to drive the run.
  void begin(Instant now);
  // An earlier process has left the trial so. `is_awaited`: Planner::is_waited_for().
  void restore(TrialIndex trial, const RestoredTrial& restored, bool is_awaited, Instant now);
  void observe(const Fact& fact, bool is_awaited, Instant now);
  // Pauses do not count as time of work.
  void set_paused(bool is_paused, Instant now);

  // The members of a snapshot that follow from the facts. `unfinished`: Planner::unfinished().
  [[nodiscard]] Snapshot snapshot(std::size_t unfinished, Instant now) const;
  // Facts of the trials that ended without success, in their order.
  [[nodiscard]] std::vector<Fact> take_unsuccessful() { return std::move(unsuccessful_); }

 private:
  struct UnderWay {
    Instant begun_at;               // when its start was commanded
    std::optional<Instant> ran_at;  // of one that runs now
  };
  // Trials that have run while this process watched, and are over.
  struct Ended {
    std::size_t count = 0;
    Seconds took{0};    // all of them together
    Instant last_at{};  // the last of them
    Seconds worked{0};  // worked() at that time
  };
  void observe_work(const Fact& fact, Instant now);
  [[nodiscard]] std::vector<RunningTrial> few_running(Instant now) const;
  [[nodiscard]] Seconds worked(Instant now) const;
  [[nodiscard]] std::optional<Seconds> left(std::size_t unfinished, Instant now) const;

  const Run& run_;
  Until until_;
  std::optional<Slots> capacity_;
  Instant began_{};
  Seconds before_{0};                                   // from the run's beginning to this process's
  std::unordered_map<TrialIndex, UnderWay> under_way_;  // awaited trials: begun, and not over
  Ended ended_;
  std::optional<Instant> paused_since_;
  Instant::duration paused_for_{0};
  std::vector<TrialIndex> starting_;
  std::size_t started_ = 0;
  std::vector<bool> was_started_;
  std::vector<bool> ran_here_;
  std::vector<Fact> unsuccessful_;
};

}  // namespace combu
