#pragma once
// Restores the trials of a run that an earlier process began. Holds their recorded states, and the trials
// whose state is uncertain until the engine's first listing.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "combu/plan.hpp"
#include "combu/schedule.hpp"
#include "schedule/attempt_end.hpp"
#include "schedule/trial_table.hpp"

namespace combu::schedule {

// `trials` must outlive this object.
class Restoration {
 public:
  // `restored`: states by trial; empty for a new run. `engine_began_at`: Facts::began_at.
  Restoration(std::vector<RestoredTrial> restored, std::optional<Instant> engine_began_at);

  // False for a new run.
  [[nodiscard]] bool is_needed() const { return !restored_.empty(); }
  [[nodiscard]] const RestoredTrial& restored(TrialIndex trial) const { return restored_[trial]; }
  // True if the trial's state in the record is not `waiting`.
  [[nodiscard]] bool has_begun(TrialIndex trial) const {
    return is_needed() && restored_[trial].state != TrialState::waiting;
  }

  // If the engine has an attempt, but the trial is `waiting` in the record, marks the trial as `starting` and
  // returns true. The record then lacks the start of this or an earlier attempt.
  [[nodiscard]] bool add_start(TrialIndex trial, const Observation& seen);

  // ---- How a trial goes on

  enum class Way {
    waits,    // the trial waits, as in a new run
    departs,  // the trial's attempt is being stopped after an edit of the file
    lives,    // the trial's attempt is starting or running
    retries,  // the trial's last attempt failed, and another attempt follows
    // the last attempt was stopped, apparently by a shutdown of the engine, but the engine did not restart
    fails,
    collects,  // the trial's attempt has ended, and its outputs are being collected
    is_over,
  };
  // Returns how the trial continues. `may_retry_stopped`: the trial may be retried after a stop
  // (FailurePolicy::may_retry).
  [[nodiscard]] Way way(TrialIndex trial, bool may_retry_stopped) const;
  // Returns why the last attempt of a retrying trial counts as failed.
  [[nodiscard]] Cause retry_cause(TrialIndex trial, bool may_retry_stopped) const;
  // Returns the end of the trial's last attempt, which failed.
  [[nodiscard]] AttemptEnd last_end(TrialIndex trial) const;
  // For a `collecting` trial, returns the end of its attempt.
  [[nodiscard]] AttemptEnd end_of(TrialIndex trial, bool is_service) const;
  // True if the last attempt may have been lost with the engine.
  [[nodiscard]] bool may_be_lost(TrialIndex trial) const;
  // Returns the moment at which the trial's dependencies were met, or `now` if the record lacks this moment.
  [[nodiscard]] Instant met_at(const Plan::Node& node, Instant now) const;
  // True if the trial's state on record equals the state that `fact` sets.
  [[nodiscard]] bool is_recorded(const Fact& fact) const { return restored_[fact.trial].state == fact.state; }

  // ---- Until the first listing

  // The planner restores the trials between begin() and end(), within one step. No attempt starts until
  // listed() is called.
  void begin() { phase_ = Phase::restoring; }
  void end() { phase_ = Phase::awaiting_listing; }
  [[nodiscard]] bool is_restoring() const { return phase_ == Phase::restoring; }
  [[nodiscard]] bool awaits_listing() const { return phase_ != Phase::none; }
  // Adds a trial whose start has perhaps not reached the engine.
  void add_unsure(TrialIndex trial) { unsure_.push_back(trial); }
  // Call this when the first listing has arrived. Returns the trials that add_unsure() added.
  [[nodiscard]] std::vector<TrialIndex> listed();

 private:
  enum class Phase : std::uint8_t { none, restoring, awaiting_listing };
  [[nodiscard]] bool was_awaiting_engine(TrialIndex trial, bool may_retry_stopped) const;

  std::vector<RestoredTrial> restored_;
  std::optional<Instant> engine_began_at_;
  Phase phase_ = Phase::none;
  std::vector<TrialIndex> unsure_;
};

}  // namespace combu::schedule
