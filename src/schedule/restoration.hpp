#pragma once
// The trials of a run that an earlier process began: their state on record, and the open questions until the
// engine's first listing.

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
  // `restored`: by trial; empty for a new run. `engine_began_at`: Facts::began_at.
  Restoration(std::vector<RestoredTrial> restored, std::optional<Instant> engine_began_at);

  // False for a new run.
  [[nodiscard]] bool is_needed() const { return !restored_.empty(); }
  [[nodiscard]] const RestoredTrial& restored(TrialIndex trial) const { return restored_[trial]; }
  // True if an earlier process brought the trial beyond `waiting`.
  [[nodiscard]] bool has_begun(TrialIndex trial) const {
    return is_needed() && restored_[trial].state != TrialState::waiting;
  }

  // Adds an attempt that the engine has to the restored state. Returns true if the record has the trial as
  // `waiting`. The start of this attempt, or of an earlier one, is then not on record.
  [[nodiscard]] bool add_start(TrialIndex trial, const Observation& seen);

  // ---- How a trial goes on

  enum class Way {
    waits,     // as in a new run
    departs,   // its attempt is being stopped after an edit of the file
    lives,     // its attempt is starting or running
    retries,   // its last attempt failed, and another follows
    fails,     // its last attempt was stopped, but not by an engine that shut down
    collects,  // its attempt has ended, and its outputs are being collected
    is_over,
  };
  // Returns how the trial goes on. `may_retry_stopped`: the trial may be retried after a stop
  // (FailurePolicy::may_retry).
  [[nodiscard]] Way way(TrialIndex trial, bool may_retry_stopped) const;
  // Returns why the last attempt of a retrying trial counts as failed.
  [[nodiscard]] Cause retry_cause(TrialIndex trial, bool may_retry_stopped) const;
  // Returns the end of the trial's last attempt, as a failure.
  [[nodiscard]] AttemptEnd last_end(TrialIndex trial) const;
  // Returns the end of the attempt of a collecting trial.
  [[nodiscard]] AttemptEnd end_of(TrialIndex trial, bool is_service) const;
  // True if the last attempt may have been lost with the engine.
  [[nodiscard]] bool may_be_lost(TrialIndex trial) const;
  // Returns the time at which the trial's dependencies were met; `now` if the record does not have it.
  [[nodiscard]] Instant met_at(const Plan::Node& node, Instant now) const;
  // True if the fact's state is on record.
  [[nodiscard]] bool is_recorded(const Fact& fact) const { return restored_[fact.trial].state == fact.state; }

  // ---- Until the first listing

  // Trials are restored between begin() and end(), within one step. Nothing starts until listed().
  void begin() { phase_ = Phase::restoring; }
  void end() { phase_ = Phase::awaiting_listing; }
  [[nodiscard]] bool is_restoring() const { return phase_ == Phase::restoring; }
  [[nodiscard]] bool awaits_listing() const { return phase_ != Phase::none; }
  // The engine may not have begun to start this trial.
  void add_unsure(TrialIndex trial) { unsure_.push_back(trial); }
  // The first listing has arrived. Returns the unsure trials.
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
