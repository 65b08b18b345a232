#include "schedule/restoration.hpp"

#include <algorithm>
#include <utility>

#include "schedule/failure.hpp"

namespace combu::schedule {

Restoration::Restoration(std::vector<Past> past, std::optional<Instant> engine_began_at)
    : past_(std::move(past)), engine_began_at_(engine_began_at) {}

bool Restoration::add_start(TrialIndex trial, const Sighting& seen) {
  if (!is_needed()) return false;
  Past& past = past_[trial];
  const bool was_started = seen.phase == combu::Phase::running || seen.phase == combu::Phase::ended;
  if (past.state != TrialState::waiting || !was_started || seen.key.attempt < past.attempt) return false;
  past.state = TrialState::starting;
  past.attempt = seen.key.attempt;
  past.slots = seen.slots;
  return true;
}

Restoration::Way Restoration::way(TrialIndex trial, bool may_retry_stopped) const {
  const Past& past = past_[trial];
  if (past.leaving != Leaving::no) return Way::departs;
  if (is_alive(past.state)) return Way::lives;
  if (past.state == TrialState::collecting) return Way::collects;
  if (is_over(past.state)) return Way::is_over;
  if (past.state == TrialState::waiting) return Way::waits;
  return was_awaiting_engine(trial, may_retry_stopped) && !may_be_lost(trial) ? Way::fails : Way::retries;
}

// True if it was not known who had stopped its last attempt: a person or an engine that restarted.
bool Restoration::was_awaiting_engine(TrialIndex trial, bool may_retry_stopped) const {
  return past_[trial].cause == Cause::stopped && !may_retry_stopped;
}

Cause Restoration::retry_cause(TrialIndex trial, bool may_retry_stopped) const {
  return was_awaiting_engine(trial, may_retry_stopped) ? Cause::host_lost : past_[trial].cause;
}

AttemptEnd Restoration::last_end(TrialIndex trial) const {
  const Past& past = past_[trial];
  return {.cause = past.cause,
          .exit_code = past.exit_code,
          .reason = past.reason,
          .stopper = past.details.stopper,
          .outputs_fault = past.details.outputs_fault};
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
  return break_since(past_[trial].ran_at, engine_began_at_) == Break::was;
}

Instant Restoration::met_at(const Plan::Node& node, Instant now) const {
  Instant met{};
  for (const Edge& need : node.needs) {
    const Past& past = past_[need.trial];
    std::optional<Instant> moment = past.over_at;
    if (need.condition == Condition::started && past.ran_at) moment = past.ran_at;
    if (need.condition == Condition::healthy && past.was_healthy) moment.reset();
    met = std::max(met, moment.value_or(now));
  }
  return std::min(met, now);
}

std::vector<TrialIndex> Restoration::listed() {
  phase_ = Phase::none;
  return std::exchange(unsure_, {});
}

}  // namespace combu::schedule
