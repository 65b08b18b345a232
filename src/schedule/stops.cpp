// Stops attempts after a timeout or deadline, stops services that no trial needs any more, and halts runs.

#include <fmt/format.h>

#include <string>
#include <utility>

#include "schedule/failure.hpp"
#include "schedule/lifecycle.hpp"

namespace combu::schedule {

EndReason Lifecycle::stop_cause_reason(TrialIndex trial) const {
  const auto departure = departures.find(trial);
  return departure == departures.end() ? failures.stop_cause_reason(trial, attempts[trial].stop_cause)
                                       : EndReason{std::string(reason_of(departure->second))};
}

void Lifecycle::stop(TrialIndex trial, Cause cause) {
  const Attempt& attempt = attempts[trial];
  if (attempts.is_stopping(trial) || attempt.is_service_stop) return;
  attempts.set_stop_cause(trial, cause);
  // A process that resumes the run learns from this fact why the attempt ends.
  trials.report(
      {.trial = trial, .state = trials.state(trial), .cause = cause, .ran = dependencies.was_started(trial)});
  // If the start is in flight, the stop is sent after the engine's answer. combu gives up a start that stays
  // unanswered after a start_deadline, or whose attempt shares a container that may not run yet: at once if
  // the engine has reported that the attempt waits.
  const bool may_stay_unanswered = cause == Cause::start_deadline || !trials.trial(trial).has_own_container();
  if (!attempt.is_start_in_flight) send_stop(trial);
  if (attempt.is_start_in_flight && may_stay_unanswered)
    set_timer(Timer::Kind::give_up, trial, attempt.was_pending ? Seconds(0) : answer_after);
}

// A trial is `ready` at its start_deadline if the engine has refused its start for lack of room.
void Lifecycle::pass_start_deadline(TrialIndex trial) {
  const TrialState state = trials.state(trial);
  if (state == TrialState::starting) stop(trial, Cause::start_deadline);
  if (state == TrialState::ready)
    fail_attempt(trial, {.cause = Cause::start_deadline, .exit_code = std::nullopt, .reason = {}});
}

void Lifecycle::send_stop(TrialIndex trial) {
  if (!is_alive(trials.state(trial))) return;
  attempts.stop_sent();
  commands.emplace_back(StopCommand{.trial = trial, .attempt = trials.attempt(trial)});
}

void Lifecycle::halt(std::string why) {
  if (!failures.halted().empty()) return;
  failures.halt(std::move(why));
  // While `spreading_` is set, the end of a trial does not affect the trials that depend on it. So each trial
  // ends for the reason `why`, and none is blocked by another one.
  const bool is_nested = std::exchange(spreading_, true);
  for (TrialIndex trial = 0; trial < trials.size(); ++trial) {
    const TrialState state = trials.state(trial);
    if (failures.last(trial) != nullptr) {
      fail_finally(trial, failures.halted());
    } else if (state == TrialState::waiting || state == TrialState::ready) {
      block_halted(trial);
    }
  }
  if (!is_nested) spread_all();
}

void Lifecycle::fail_finally(TrialIndex trial, const std::string& why) {
  Fact failure = *failures.last(trial);
  trials.set_attempt(trial, failure.attempt);
  failure.details.next = Next::given_up;
  failure.details.next_why = why;
  fail(std::move(failure));
}

void Lifecycle::halt_after_failures() {
  if (auto reason = failures.limit_reached()) halt(std::move(*reason));
}

void Lifecycle::pass_deadline() {
  halt(fmt::format("the run's deadline of {} has passed", to_string(experiment.deadline)));
  for (TrialIndex trial = 0; trial < trials.size(); ++trial) {
    const TrialState state = trials.state(trial);
    if (!is_alive(state)) continue;
    if (trials.trial(trial).service && state == TrialState::running) {
      stop_service(trial);
    } else {
      stop(trial, Cause::stopped);
    }
  }
}

// ---- Services

void Lifecycle::stop_when_unused(TrialIndex trial) {
  // A service without dependents serves all trials: it runs until the run's work is done.
  const bool serves_all = plan.nodes[trial].needed_by.empty();
  if (until == Until::ended && dependencies.is_unused(trial) && (!serves_all || trials.unfinished() == 0))
    stop_service(trial);
}

void Lifecycle::stop_unused_services() {
  for (const TrialIndex trial : trials.services()) {
    if (!dependencies.is_unused(trial)) continue;
    const TrialState state = trials.state(trial);
    if (state == TrialState::running) stop_service(trial);
    if (state == TrialState::waiting || state == TrialState::ready || state == TrialState::retrying)
      finish_unstarted(trial);
  }
}

// Ends a service that is not running and will not be started, because no trial needs this service any more.
void Lifecycle::finish_unstarted(TrialIndex trial) {
  Fact end{.trial = trial, .state = TrialState::stopped};
  if (const Fact* failure = failures.last(trial)) {
    trials.set_attempt(trial, failure->attempt);
    end.cause = failure->cause;
    end.exit_code = failure->exit_code;
    end.reason = failure->reason;
    end.details = failure->details;
    end.details.next = Next::given_up;
    end.details.next_why = "no trial needs this service any more";
  }
  finish(std::move(end));
}

void Lifecycle::stop_service(TrialIndex trial) {
  if (!trials.trial(trial).service || trials.state(trial) != TrialState::running || departs(trial)) return;
  if (!std::exchange(attempts[trial].is_service_stop, true)) send_stop(trial);
}

}  // namespace combu::schedule
