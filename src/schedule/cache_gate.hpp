#pragma once
// Trials with `cache`: an equal trial that has succeeded before is looked up before they start, and services
// wait for all lookups, since they may not be needed.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "combu/plan.hpp"
#include "schedule/trial_table.hpp"

namespace combu::schedule {

// The references outlive it.
class CacheGate {
 public:
  // `is_enabled`: false if no trial is looked up.
  CacheGate(const TrialTable& trials, const Plan& plan, bool is_enabled);

  // True if the trial has a lookup still to come. Trials whose end is not awaited have none.
  [[nodiscard]] bool needs_lookup(TrialIndex trial) const;
  // True if all that goes into the trial is known: the trials that it has inputs of have succeeded.
  [[nodiscard]] bool are_inputs_known(TrialIndex trial) const;
  // Waiting dependents of a succeeded trial whose lookup can begin.
  [[nodiscard]] std::vector<TrialIndex> next_lookups(TrialIndex succeeded) const;
  // No lookup for this trial.
  void skip_lookup(TrialIndex trial) { rows_[trial] = Lookup::done; }
  // The trial begins as if there had been no attempt.
  void reset(TrialIndex trial) { rows_[trial] = Lookup::none; }

  void sent(TrialIndex trial);
  // True if a lookup was in flight.
  bool answered(TrialIndex trial);
  [[nodiscard]] bool is_in_flight(TrialIndex trial) const { return rows_[trial] == Lookup::in_flight; }
  [[nodiscard]] std::size_t in_flight() const { return in_flight_; }

  // The trial is ready, but waits for all lookups.
  void hold(TrialIndex trial) { held_.push_back(trial); }
  [[nodiscard]] std::vector<TrialIndex> release();

 private:
  enum class Lookup : std::uint8_t { none, in_flight, done };

  const TrialTable& trials_;
  const Plan& plan_;
  bool is_enabled_;
  std::vector<Lookup> rows_;
  std::size_t in_flight_ = 0;
  std::vector<TrialIndex> held_;
};

}  // namespace combu::schedule
