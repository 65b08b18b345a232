#pragma once
// Cache lookups of trials with `cache`. Before a trial with `cache` starts, combu looks for an equal trial
// that has succeeded. Services wait for all lookups, because the trials that need the services may be
// skipped.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "combu/plan.hpp"
#include "schedule/trial_table.hpp"

namespace combu::schedule {

// The referenced objects must outlive this object.
class CacheGate {
 public:
  // If `is_enabled` is false, no trial is looked up.
  CacheGate(const TrialTable& trials, const Plan& plan, bool is_enabled);

  // True if the trial needs a lookup that has not been sent. False for trials whose end the run does not wait
  // for, because such trials are not looked up.
  [[nodiscard]] bool needs_lookup(TrialIndex trial) const;
  // True if all trials from which the trial gets inputs have succeeded.
  [[nodiscard]] bool are_inputs_known(TrialIndex trial) const;
  // Returns the waiting trials that depend on the trial `succeeded` and that can be looked up now.
  [[nodiscard]] std::vector<TrialIndex> next_lookups(TrialIndex succeeded) const;
  // Lets the trial start without a lookup.
  void skip_lookup(TrialIndex trial) { rows_[trial] = Lookup::done; }
  // Forgets the trial's lookup. The trial is looked up again before its next start.
  void reset(TrialIndex trial) { rows_[trial] = Lookup::none; }

  void sent(TrialIndex trial);
  // Records that the lookup is answered. Returns false if no lookup of this trial was in flight.
  bool answered(TrialIndex trial);
  [[nodiscard]] bool is_in_flight(TrialIndex trial) const { return rows_[trial] == Lookup::in_flight; }
  [[nodiscard]] std::size_t in_flight() const { return in_flight_; }

  // Holds back a ready trial until release(). Lifecycle calls release() when no lookup is in flight.
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
