#include "schedule/restoration.hpp"

#include <algorithm>
#include <utility>

#include "schedule/failure.hpp"

namespace combu::schedule {

Restoration::Restoration(std::vector<RestoredTrial> restored, std::optional<Instant> engine_began_at)
    : restored_(std::move(restored)), engine_began_at_(engine_began_at) {}

bool Restoration::add_start(TrialIndex trial, const Observation& seen) {
  if (!is_needed()) return false;
  RestoredTrial& restored = restored_[trial];
  const bool was_started = seen.phase != combu::Phase::created && seen.phase != combu::Phase::gone;
  if (restored.state != TrialState::waiting || !was_started || seen.key.attempt < restored.attempt)
    return false;
  restored.state = TrialState::starting;
  restored.attempt = seen.key.attempt;
  restored.slots = seen.slots;
  return true;
}

Restoration::Way Restoration::way(TrialIndex trial, bool may_retry_stopped) const {
  const RestoredTrial& restored = restored_[trial];
  if (restored.departure != Departure::no) return Way::departs;
  if (is_alive(restored.state)) return Way::lives;
  if (restored.state == TrialState::collecting) return Way::collects;
  if (is_over(restored.state)) return Way::is_over;
  if (restored.state == TrialState::waiting) return Way::waits;
  return was_awaiting_engine(trial, may_retry_stopped) && !may_be_lost(trial) ? Way::fails : Way::retries;
}

// True if an earlier process could not decide who had stopped the last attempt: a person, or an engine that
// shut down.
bool Restoration::was_awaiting_engine(TrialIndex trial, bool may_retry_stopped) const {
  return restored_[trial].cause == Cause::stopped && !may_retry_stopped;
}

Cause Restoration::retry_cause(TrialIndex trial, bool may_retry_stopped) const {
  return was_awaiting_engine(trial, may_retry_stopped) ? Cause::host_lost : restored_[trial].cause;
}

AttemptEnd Restoration::last_end(TrialIndex trial) const {
  const RestoredTrial& restored = restored_[trial];
  return {.cause = restored.cause,
          .exit_code = restored.exit_code,
          .reason = restored.reason,
          .stopper = restored.details.stopper,
          .outputs_fault = restored.details.outputs_fault};
}

AttemptEnd Restoration::end_of(TrialIndex trial, bool is_service) const {
  AttemptEnd end = last_end(trial);
  end.engine = Break::was_not;
  if (end.cause != Cause::none) return end;
  end.as = is_service ? TrialState::stopped : TrialState::succeeded;
  end.reason.clear();
  return end;
}

bool Restoration::may_be_lost(TrialIndex trial) const {
  return break_since(restored_[trial].ran_at, engine_began_at_) == Break::was;
}

Instant Restoration::met_at(const Plan::Node& node, Instant now) const {
  Instant met{};
  for (const Edge& need : node.needs) {
    const RestoredTrial& restored = restored_[need.trial];
    std::optional<Instant> timestamp = restored.over_at;
    if (need.condition == Condition::started && restored.ran_at) timestamp = restored.ran_at;
    if (need.condition == Condition::healthy && restored.was_healthy) timestamp.reset();
    met = std::max(met, timestamp.value_or(now));
  }
  return std::min(met, now);
}

std::vector<TrialIndex> Restoration::listed() {
  phase_ = Phase::none;
  return std::exchange(unsure_, {});
}

}  // namespace combu::schedule
