#pragma once
// The trials of a run that an earlier process has begun: what the record says of them, and what it leaves
// open until the engine has listed its attempts.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "combu/plan.hpp"
#include "combu/schedule.hpp"
#include "schedule/attempt_end.hpp"
#include "schedule/trial_table.hpp"

namespace combu::schedule {

// `trials` outlives it.
class Restoration {
 public:
  // `past`: by trial; empty for a run that begins.
  Restoration(std::vector<RestoredTrial> restored, std::optional<Instant> engine_began_at);

  // False for a run that begins.
  [[nodiscard]] bool is_needed() const { return !restored_.empty(); }
  [[nodiscard]] const RestoredTrial& restored(TrialIndex trial) const { return restored_[trial]; }
  // True for a trial that an earlier process has got further than `waiting`.
  [[nodiscard]] bool has_begun(TrialIndex trial) const {
    return is_needed() && restored_[trial].state != TrialState::waiting;
  }

  // Corrects the record by an attempt that the engine has. Returns true if the trial waits on record, and so
  // the start of this attempt, or of an earlier one, is not recorded.
  [[nodiscard]] bool add_start(TrialIndex trial, const Observation& seen);

  // ---- How a trial goes on

  enum class Way {
    waits,     // as in a run that begins
    departs,   // its attempt is stopped for an edited file
    lives,     // its attempt is starting or running
    retries,   // its last attempt failed, and another follows
    fails,     // its last attempt was stopped, and not by an engine that restarted
    collects,  // its attempt has ended, and its outputs are collected
    is_over,
  };
  // `may_retry_stopped`: retries follow an attempt that was stopped (FailurePolicy::may_retry).
  [[nodiscard]] Way way(TrialIndex trial, bool may_retry_stopped) const;
  // Of a trial that retries: why its last attempt counts as failed.
  [[nodiscard]] Cause retry_cause(TrialIndex trial, bool may_retry_stopped) const;
  // The end of its last attempt.
  [[nodiscard]] AttemptEnd last_end(TrialIndex trial) const;
  // Of a trial that collects.
  [[nodiscard]] AttemptEnd end_of(TrialIndex trial, bool is_service) const;
  // True if its last attempt may have ended with the engine.
  [[nodiscard]] bool may_be_lost(TrialIndex trial) const;
  // The time at which the trial's dependencies were met; `now` if the record does not say.
  [[nodiscard]] Instant met_at(const Plan::Node& node, Instant now) const;
  // True if the record has the fact.
  [[nodiscard]] bool is_recorded(const Fact& fact) const { return restored_[fact.trial].state == fact.state; }

  // ---- Until the first listing

  // Trials are restored between begin() and end(), in one step. Nothing starts until listed().
  void begin() { phase_ = Phase::restoring; }
  void end() { phase_ = Phase::awaiting_listing; }
  [[nodiscard]] bool is_restoring() const { return phase_ == Phase::restoring; }
  [[nodiscard]] bool awaits_listing() const { return phase_ != Phase::none; }
  // The engine may not have begun to start this trial.
  void add_unsure(TrialIndex trial) { unsure_.push_back(trial); }
  // Returns the unsure trials.
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
