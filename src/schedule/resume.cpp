// Restores the trials of a run that an earlier process began. Restoration decides how each trial continues.

#include <utility>
#include <vector>

#include "schedule/lifecycle.hpp"

namespace combu::schedule {

void Lifecycle::restore_canaries() {
  for (TrialIndex trial = 0; trial < trials.size(); ++trial)
    if (has_succeeded(restoration.restored(trial).state)) canaries.pass(trial);
  for (TrialIndex trial = 0; trial < trials.size(); ++trial) {
    const RestoredTrial& restored = restoration.restored(trial);
    // A failed trial does not become a failed canary, because trials of its shape may have been edited or
    // reopened after the failure.
    const bool is_tried = restoration.has_begun(trial) && !is_over(restored.state);
    if (is_tried && restored.departure == Departure::no) (void)canaries.started(trial);
  }
}

void Lifecycle::restore_all() {
  // All states must be restored before the end of a trial affects other trials.
  defer_spreading();
  for (TrialIndex trial = 0; trial < trials.size(); ++trial) restore(trial);
  spread_all();
  halt_after_failures();
}

void Lifecycle::end_restoring(std::vector<Fact>& facts) {
  std::erase_if(facts, [this](const Fact& fact) { return restoration.is_recorded(fact); });
  restoration.end();
}

void Lifecycle::restore(TrialIndex trial) {
  const RestoredTrial& restored = restoration.restored(trial);
  trials.restore(trial, restored);
  if (restored.departure == Departure::no) restore_history(trial, restored);
  const bool may_retry_stopped = failures.may_retry(trial, Cause::stopped);
  switch (restoration.way(trial, may_retry_stopped)) {
    case Restoration::Way::waits:
      return;
    case Restoration::Way::departs:
      return restore_departure(trial, restored);
    case Restoration::Way::lives:
      return restore_alive(trial, restored, restored.slots.empty() ? requests.of(trial) : restored.slots);
    case Restoration::Way::retries: {
      count_failure(trial, restoration.retry_cause(trial, may_retry_stopped));
      failures.remember(trial, restoration.last_end(trial));
      return next_attempt(trial, Seconds(0));
    }
    case Restoration::Way::fails: {
      EndReason end = failures.stop_reason(trial, restored.exit_code);
      // Calls finish(), not fail(): a halt in fail() would block the trials that are not restored yet.
      return finish({.trial = trial,
                     .state = TrialState::stopped,
                     .cause = Cause::stopped,
                     .exit_code = restored.exit_code,
                     .reason = std::move(end.reason),
                     .details = {.stopper = end.stopper}});
    }
    case Restoration::Way::collects:
      return collect_trial_outputs(trial, restoration.end_of(trial, trials.trial(trial).service));
    case Restoration::Way::is_over:
      if (restored.root) dependencies.set_root(trial, *restored.root);
      return finish({.trial = trial,
                     .state = restored.state,
                     .cause = restored.cause,
                     .exit_code = restored.exit_code});
  }
}

void Lifecycle::restore_history(TrialIndex trial, const RestoredTrial& restored) {
  for (const Cause cause : restored.earlier) count_failure(trial, cause);
  if (restored.was_started && dependencies.set_started(trial)) meet(trial, Condition::started);
  if (restored.was_healthy && dependencies.set_healthy(trial)) meet(trial, Condition::healthy);
}

// Restores a trial whose attempt is being stopped because the trial was edited. Conditions that this
// attempt met do not count for the next attempt.
void Lifecycle::restore_departure(TrialIndex trial, const RestoredTrial& restored) {
  if (restored.was_started) dependencies.set_started(trial);
  departures.emplace(trial, restored.departure);
  restore_alive(trial, restored, restored.slots);
  stop(trial, Cause::stopped);
}

void Lifecycle::restore_alive(TrialIndex trial, const RestoredTrial& restored, const Slots& slots) {
  reserve_slots(trial, slots);
  attempts[trial].ran_at = restored.ran_at;
  if (restored.stop_cause != Cause::none) {
    attempts.set_stop_cause(trial, restored.stop_cause);
    send_stop(trial);
  }
  const Seconds timeout = trials.trial(trial).timeout;
  if (restored.state == TrialState::starting) {
    restoration.add_unsure(trial);
  } else if (timeout > Seconds(0)) {
    set_timer(Timer::Kind::timeout, trial, timeout, restored.ran_at);
  }
}

void Lifecycle::catch_up(TrialIndex trial, const Observation& observation) {
  if (!restoration.awaits_listing() || !is_alive(trials.state(trial)) ||
      observation.key.attempt <= trials.attempt(trial))
    return;
  give_back_slots(trial);
  const Instant at = trials.time_of(trial, observation.created_at);
  trials.report({.trial = trial,
                 .state = TrialState::retrying,
                 .ran = dependencies.was_started(trial),
                 .reason = "the attempt's end was not recorded",
                 .at = at});
  trials.set_attempt(trial, observation.key.attempt);
  reserve_slots(trial, observation.slots);
  trials.report(
      {.trial = trial, .state = TrialState::starting, .at = at, .slots = observation.slots, .ready_at = at});
  if (attempts.is_stopping(trial)) send_stop(trial);
}

}  // namespace combu::schedule
