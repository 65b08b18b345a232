#include "schedule/lifecycle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "schedule/failure.hpp"

namespace combu::schedule {
namespace {

// Maximum number of tries to collect a trial's outputs; the pauses between them take about nine minutes in
// all. After the last try, the run's owner no longer stays only to collect outputs.
constexpr int k_collect_tries_max = 15;

// How long combu waits for a sign that an engine's shutdown stopped an attempt. An engine that shuts down
// stops its containers within ten to fifteen seconds (moby: daemon/config, DefaultShutdownTimeout). A run
// tolerates an unreachable engine for one minute (RetryPolicy::give_up).
constexpr Seconds k_verdict_after{75};

void set_reason(AttemptEnd& end, EndReason reason) {
  end.reason = std::move(reason.reason);
  end.stopper = reason.stopper;
}

}  // namespace

Lifecycle::Lifecycle(const Experiment& the_experiment, const Plan& the_plan, PlannerOptions options)
    : experiment(the_experiment),
      plan(the_plan),
      until(options.until),
      answer_after(options.answer_after),
      pending_max(options.pending_max),
      trials(the_experiment, the_plan, options.limits),
      dependencies(trials, the_plan),
      attempts(trials.size()),
      holdings(options.capacity, options.gpus),
      room(the_experiment, the_plan, options.capacity, options.gpus, options.until),
      requests(trials, the_plan, holdings, room, options.capacity, options.until),
      queue(the_experiment, the_plan, trials, requests, holdings, room, options.gpus),
      canaries(the_experiment, [this](TrialIndex trial) { return trials.is_awaited(trial); }),
      failures(the_experiment, trials),
      outputs(trials),
      lookups(trials, the_plan, options.looks_up_cache),
      restoration(std::move(options.restored), options.engine_began_at) {}

// ---- Before the start

void Lifecycle::make_ready(TrialIndex trial) {
  const bool is_restoring = restoration.is_restoring();
  if (is_restoring && restoration.has_begun(trial)) return;
  Attempt& attempt = attempts[trial];
  if (!attempt.ready_since)
    attempt.ready_since = is_restoring ? restoration.met_at(plan.nodes[trial], trials.now()) : trials.now();
  if (lookups.is_in_flight(trial)) return;
  if (may_look_up(trial)) return look_up(trial);
  if (lookups.in_flight() > 0 && !trials.is_awaited(trial)) return lookups.hold(trial);
  if (canaries.admit(trial)) {
    enqueue(trial);
  } else if (const auto canary = canaries.failed_of(trial)) {
    block(trial, *canary, canary_text(*canary));
  }
}

void Lifecycle::enqueue(TrialIndex trial) {
  trials.set_ready(trial);
  attempts[trial].queued_at = trials.now();
  queue.push(trial);
}

void Lifecycle::start_ready_trials(const Settings& settings) {
  if (interrupted || restoration.awaits_listing() || settings.paused) return;
  while (attempts.starts_in_flight() < std::min(settings.starts_in_flight_max, engine_room.starts_max) &&
         may_start_pending()) {
    auto next = queue.pop(settings.parallel_max, is_idle());
    if (!next && queue_refused()) next = queue.pop(settings.parallel_max, is_idle());
    if (!next) return;
    start(next->trial, std::move(next->slots));
  }
}

void Lifecycle::start(TrialIndex trial, Slots slots) {
  attempts.start_sent(trial);
  reserve_slots(trial, slots);
  const Attempt& attempt = attempts[trial];
  trials.report({.trial = trial,
                 .state = TrialState::starting,
                 .slots = slots,
                 .ready_at = attempt.ready_since.value_or(attempt.queued_at)});
  for (const TrialIndex kept : canaries.started(trial))
    if (trials.state(kept) == TrialState::ready) trials.set_waiting(kept);
  commands.emplace_back(
      StartCommand{.trial = trial, .attempt = trials.attempt(trial), .slots = std::move(slots)});
  const Seconds limit = trials.trial(trial).start_deadline;
  if (limit > Seconds(0)) set_timer(Timer::Kind::start_deadline, trial, limit);
}

void Lifecycle::answer_start(TrialIndex trial) {
  attempts.start_answered(trial);
  retry_when_possible(trial);
}

void Lifecycle::undo_start(TrialIndex trial) {
  if (return_slots(trial)) enqueue(trial);
}

bool Lifecycle::return_slots(TrialIndex trial) {
  if (trials.state(trial) != TrialState::starting) return false;
  if (attempts.is_stopping(trial)) {
    fail_attempt(trial, {.cause = attempts[trial].stop_cause, .exit_code = std::nullopt, .reason = {}});
    return false;
  }
  holdings.give_back(trial);
  room.ended(trial);
  report_ready(trial);
  return true;
}

// If the refused trial entered the queue at once, a trial with large requests could be refused again and
// again, and keep smaller ones from starting.
void Lifecycle::await_room(TrialIndex trial, Seconds retry_after) {
  if (return_slots(trial)) engine_room.refused.push_back(trial);
  engine_room.is_used_up = true;
  engine_room.starts_max = 1;
  set_timer(Timer::Kind::quota, trial, retry_after);
}

void Lifecycle::find_room() {
  if (engine_room.starts_max < std::numeric_limits<std::size_t>::max() / 2) engine_room.starts_max *= 2;
}

bool Lifecycle::queue_refused() {
  const std::vector<TrialIndex> refused = std::exchange(engine_room.refused, {});
  for (const TrialIndex trial : refused)
    if (trials.state(trial) == TrialState::ready) queue.push(trial);
  return !refused.empty();
}

void Lifecycle::reserve_slots(TrialIndex trial, const Slots& slots) {
  holdings.take(trial, slots, !trials.is_awaited(trial));
  if (trials.trial(trial).service) room.started(trial, slots);
}

void Lifecycle::give_back_slots(TrialIndex trial) {
  if (!is_alive(trials.state(trial))) return;
  holdings.give_back(trial);
  room.ended(trial);
  engine_room.is_used_up = false;
  queue_refused();
}

// ---- While an attempt runs

void Lifecycle::begin_to_run(TrialIndex trial) {
  const bool is_first = dependencies.set_started(trial);
  attempts.first_seen(trial);
  const Instant ran_at = trials.time_of(trial, attempts[trial].ran_at);
  trials.report({.trial = trial, .state = TrialState::running, .at = ran_at, .id = attempts[trial].id});
  const Seconds timeout = trials.trial(trial).timeout;
  if (timeout > Seconds(0)) set_timer(Timer::Kind::timeout, trial, timeout, ran_at);
  if (departs(trial)) return;
  if (is_first) meet(trial, Condition::started);
  stop_when_unused(trial);
}

void Lifecycle::become_healthy(TrialIndex trial) {
  if (!dependencies.set_healthy(trial)) return;
  trials.report({.trial = trial, .state = TrialState::running, .healthy = true});
  meet(trial, Condition::healthy);
}

void Lifecycle::become_unhealthy(TrialIndex trial) {
  if (dependencies.was_healthy(trial)) return;
  dependencies.set_unhealthy(trial);
  block_dependents(trial, Condition::healthy);
}

void Lifecycle::meet(TrialIndex trial, Condition condition) {
  for (const TrialIndex dependent : dependencies.meet(trial, condition))
    if (trials.state(dependent) == TrialState::waiting) make_ready(dependent);
}

// ---- The end of an attempt

void Lifecycle::fail_attempt(TrialIndex trial, AttemptEnd end) {
  if (departs(trial)) return depart(trial, end.exit_code);
  if (attempts.is_stopping(trial)) {
    end.cause = attempts[trial].stop_cause;
    set_reason(end, stop_cause_reason(trial));
  } else if (end.reason.empty() && end.cause == Cause::stopped) {
    set_reason(end, failures.stop_reason(trial, end.exit_code));
  } else if (end.reason.empty()) {
    set_reason(end, failure_reason(trials.trial(trial), end.cause, end.exit_code, requests.of(trial).memory));
  }
  settle(trial, std::move(end));
}

// If the attempt never ran, or its container was removed, collects neither outputs nor logs.
void Lifecycle::settle(TrialIndex trial, AttemptEnd end) {
  const bool can_collect = trials.state(trial) == TrialState::running && end.exit_code;
  const bool failed = end.as == TrialState::failed;
  if (can_collect && !trials.trial(trial).outputs.empty() &&
      (!failed || experiment.collect.on == CollectOn::always)) {
    collect_trial_outputs(trial, std::move(end));
    return;
  }
  if (can_collect && failed) collect({.trial = trial, .tail = true});
  conclude(trial, end);
}

void Lifecycle::conclude(TrialIndex trial, const AttemptEnd& end) {
  if (end.as != TrialState::failed)
    return finish(
        {.trial = trial, .state = end.as, .exit_code = end.exit_code, .at = trials.time_of(trial, end.at)});
  switch (failures.judge(trial, end)) {
    case FailurePolicy::Verdict::retry:
      return retry(trial, end);
    case FailurePolicy::Verdict::await_engine:
      return await_verdict(trial, end);
    case FailurePolicy::Verdict::fail:
      return fail(trial, end, trials.attempt(trial) > 1 ? Next::spent : Next::none);
  }
}

void Lifecycle::vanish(TrialIndex trial, std::string reason) {
  if (attempts[trial].is_service_stop) {
    finish({.trial = trial, .state = TrialState::stopped});
  } else {
    // The caller's `reason` says more than the stop cause, which is the run's deadline.
    if (!reason.empty() && !departs(trial) && attempts[trial].stop_cause == Cause::stopped)
      attempts.clear_stop_cause(trial);
    fail_attempt(trial, {.cause = Cause::stopped, .exit_code = std::nullopt, .reason = std::move(reason)});
  }
}

void Lifecycle::depart(TrialIndex trial, std::optional<int> exit_code) {
  const Departure how = departures.at(trial);
  Fact fact{.trial = trial,
            .state = TrialState::stopped,
            .exit_code = exit_code,
            .reason = std::string(reason_of(how))};
  if (how == Departure::removed) {
    finish(std::move(fact));
  } else {
    fact.cause = Cause::stopped;
    begin_anew(std::move(fact));
  }
}

// Makes the trial wait as if it had never been started. `end` is the fact about the end of the trial's
// attempt.
void Lifecycle::begin_anew(Fact end) {
  const TrialIndex trial = end.trial;
  give_back_slots(trial);
  departures.erase(trial);
  end.state = TrialState::retrying;
  end.is_reset = true;
  end.ran = dependencies.was_started(trial);
  trials.report(std::move(end));
  trials.set_waiting(trial);
  trials.set_attempt(trial, trials.attempt(trial) + 1);
  attempts.renew(trial);
  dependencies.forget_attempts(trial);
  failures.reset(trial);
  requests.reset(trial);
  lookups.reset(trial);
  if (!failures.halted().empty()) {
    block_halted(trial);
  } else if (const auto never = dependencies.unreachable(trial)) {
    block(trial, never->trial, dependencies.reason(*never));
  } else if (dependencies.are_met(trial)) {
    make_ready(trial);
  }
}

// ---- Outputs

void Lifecycle::collect_trial_outputs(TrialIndex trial, AttemptEnd end) {
  const bool failed = end.as == TrialState::failed;
  give_back_slots(trial);
  report_collecting(trial, end, "");
  end.at.reset();  // the next fact then gets the moment at which the outputs are collected
  collect({.trial = trial, .tail = failed, .outputs = true, .failed = failed});
  outputs.begin(trial, std::move(end));
}

void Lifecycle::report_collecting(TrialIndex trial, const AttemptEnd& end, const std::string& fault) {
  EndDetails details = details_of(end);
  if (!fault.empty()) details.next = Next::collect;
  details.next_why = fault;
  trials.report({.trial = trial,
                 .state = TrialState::collecting,
                 .cause = end.cause,
                 .ran = true,
                 .exit_code = end.exit_code,
                 .reason = end.reason,
                 .details = std::move(details),
                 .at = trials.time_of(trial, end.at)});
}

void Lifecycle::finish_collecting(TrialIndex trial, const std::string& fault, Cause cause) {
  conclude(trial, outputs.finish(trial, fault, cause));
}

bool Lifecycle::collect_again(TrialIndex trial, const std::string& fault) {
  const AttemptEnd& end = outputs.end_of(trial);
  if (outputs.tries(trial) == 0) report_collecting(trial, end, fault);
  const Seconds pause = outputs.retry(trial, fault);
  if (outputs.tries(trial) >= k_collect_tries_max && is_idle() && trials.count(TrialState::ready) == 0)
    return false;
  set_timer(Timer::Kind::collect, trial, pause);
  return true;
}

void Lifecycle::retry_collecting(TrialIndex trial) {
  const bool failed = outputs.end_of(trial).as == TrialState::failed;
  collect({.trial = trial, .outputs = true, .failed = failed});
}

void Lifecycle::collect(CollectCommand command) {
  outputs.sent(command.trial);
  command.attempt = trials.attempt(command.trial);
  commands.emplace_back(command);
}

// ---- Retries

void Lifecycle::count_failure(TrialIndex trial, Cause cause) {
  failures.count(trial, cause);
  if (cause == Cause::oom) requests.grow_memory(trial, !restoration.awaits_listing());
}

void Lifecycle::retry(TrialIndex trial, const AttemptEnd& end) {
  give_back_slots(trial);
  count_failure(trial, end.cause);
  const Seconds pause = failures.pause(trial, end.cause);
  report_retrying(trial, end, Next::attempt, pause);
  next_attempt(trial, pause);
}

// Waits until combu knows if a shutdown of the engine stopped the attempt. If the connection to the engine
// breaks within k_verdict_after, the shutdown was the cause, and the trial is retried. Otherwise the trial
// fails.
void Lifecycle::await_verdict(TrialIndex trial, const AttemptEnd& end) {
  give_back_slots(trial);
  report_retrying(trial, end, Next::verdict, Seconds(0));
  attempts[trial].is_due = false;
  set_timer(Timer::Kind::verdict, trial, k_verdict_after);
  failures.await(trial);
}

void Lifecycle::report_retrying(TrialIndex trial, const AttemptEnd& end, Next next, Seconds pause) {
  EndDetails details = details_of(end);
  details.next = next;
  details.pause = pause;
  trials.report({.trial = trial,
                 .state = TrialState::retrying,
                 .cause = end.cause,
                 .ran = dependencies.was_started(trial),
                 .exit_code = end.exit_code,
                 .reason = end.reason,
                 .details = std::move(details),
                 .at = trials.time_of(trial, end.at)});
  failures.remember(trial, end);
}

void Lifecycle::blame_engine() {
  outputs.mark_lost();
  for (const TrialIndex trial : failures.release_awaiting()) {
    failures.count(trial, Cause::host_lost);
    next_attempt(trial, Seconds(0));
  }
}

void Lifecycle::next_attempt(TrialIndex trial, Seconds pause) {
  trials.set_attempt(trial, trials.attempt(trial) + 1);
  attempts.renew(trial);
  failures.forget_stopper(trial);
  set_timer(Timer::Kind::retry, trial, pause);
}

void Lifecycle::retry_when_possible(TrialIndex trial) {
  Attempt& attempt = attempts[trial];
  if (trials.state(trial) != TrialState::retrying || !attempt.is_due || attempt.is_start_in_flight ||
      outputs.is_in_flight(trial))
    return;
  attempt.ready_since = trials.now();
  enqueue(trial);
  retried_.push_back(trial);
}

void Lifecycle::report_waiting_retries() {
  for (const TrialIndex trial : std::exchange(retried_, {}))
    if (trials.state(trial) == TrialState::ready && !interrupted) report_ready(trial);
}

void Lifecycle::report_ready(TrialIndex trial) {
  trials.report(
      {.trial = trial, .state = TrialState::ready, .slots = requests.of(trial), .ready_at = trials.now()});
}

// ---- The end of a trial

void Lifecycle::fail(TrialIndex trial, const AttemptEnd& end, Next next) {
  EndDetails details = details_of(end);
  details.next = next;
  fail({.trial = trial,
        .state = state_after(end.cause),
        .cause = end.cause,
        .exit_code = end.exit_code,
        .reason = end.reason,
        .details = std::move(details),
        .at = trials.time_of(trial, end.at)});
}

void Lifecycle::fail(Fact fact) {
  finish(std::move(fact));
  halt_after_failures();
}

// Ends the trial. The effects on other trials are queued and not applied recursively, because chains of
// dependencies may be long.
void Lifecycle::finish(Fact fact) {
  const TrialIndex trial = fact.trial;
  give_back_slots(trial);
  attempts.clear_stop_cause(trial);
  departures.erase(trial);
  room.over(trial);
  const bool is_of_shape = fact.state == TrialState::failed && fact.cause != Cause::host_lost;
  fact.ran = dependencies.was_started(trial);
  trials.report(std::move(fact));
  over_.push_back({.trial = trial, .is_of_shape = is_of_shape});
  if (!spreading_) spread_all();
}

void Lifecycle::spread_all() {
  spreading_ = true;
  while (!over_.empty()) {
    const Over next = over_.back();
    over_.pop_back();
    spread(next);
    if (over_.empty() && trials.unfinished() == 0 && until == Until::ended) stop_unused_services();
  }
  spreading_ = false;
}

// Applies the effects of a trial's end to its dependents and its dependencies.
void Lifecycle::spread(const Over& end) {
  const TrialIndex trial = end.trial;
  const TrialState state = trials.state(trial);
  // The condition `finished` is met even if the trial never ran. Trials that depend on this condition use the
  // outputs that exist.
  meet(trial, Condition::finished);
  if (has_succeeded(state)) {
    meet(trial, Condition::succeeded);
  } else {
    block_dependents(trial, Condition::succeeded);
  }
  spread_unmet(trial, Condition::healthy, dependencies.was_healthy(trial));
  spread_unmet(trial, Condition::started, dependencies.was_started(trial));
  if (has_succeeded(state))
    for (const TrialIndex next : lookups.next_lookups(trial))
      if (may_look_up(next)) look_up(next);
  spread_to_shape(end);
  for (const TrialIndex need : dependencies.release(trial)) stop_when_unused(need);
}

// Handles a condition that no attempt of an ended trial has met. A skipped trial meets the condition; after
// any other end of the trial, the condition can never be met.
void Lifecycle::spread_unmet(TrialIndex trial, Condition condition, bool is_met) {
  if (is_met) return;
  if (trials.state(trial) == TrialState::skipped) {
    meet(trial, condition);
  } else {
    block_dependents(trial, condition);
  }
}

// Applies the effects of a canary's end to the trials that waited for it.
void Lifecycle::spread_to_shape(const Over& end) {
  const TrialIndex trial = end.trial;
  const TrialState state = trials.state(trial);
  if (has_succeeded(state)) {
    const auto kept = state == TrialState::skipped ? canaries.pass(trial) : canaries.passed(trial);
    for (const TrialIndex one : kept)
      if (trials.state(one) == TrialState::waiting) enqueue(one);
  } else if (end.is_of_shape) {
    for (const TrialIndex one : canaries.failed(trial))
      if (trials.state(one) == TrialState::waiting) block(one, trial, canary_text(trial));
  } else {
    for (const TrialIndex one : canaries.withdrawn(trial))
      if (trials.state(one) == TrialState::waiting) make_ready(one);
  }
}

void Lifecycle::block_dependents(TrialIndex trial, Condition condition) {
  for (const TrialIndex dependent : dependencies.waiting_for(trial, condition))
    if (trials.state(dependent) == TrialState::waiting)
      block(dependent, trial, dependencies.reason({.trial = trial, .condition = condition}));
}

void Lifecycle::block(TrialIndex trial, TrialIndex cause, std::string why) {
  const TrialIndex root = dependencies.block(trial, cause);
  finish({.trial = trial, .state = TrialState::blocked, .reason = std::move(why), .root = root});
}

void Lifecycle::block_halted(TrialIndex trial) {
  finish({.trial = trial, .state = TrialState::blocked, .reason = "not started: " + failures.halted()});
}

std::string Lifecycle::canary_text(TrialIndex canary) const {
  return fmt::format("the canary `{}` failed", trials.name(canary));
}

// ---- Cache lookups

bool Lifecycle::may_look_up(TrialIndex trial) const {
  return lookups.needs_lookup(trial) && failures.halted().empty();
}

void Lifecycle::look_up(TrialIndex trial) {
  lookups.sent(trial);
  commands.emplace_back(CacheLookupCommand{.trial = trial});
}

void Lifecycle::begin_lookups() {
  for (TrialIndex trial = 0; trial < trials.size(); ++trial) {
    if (restoration.is_needed() && restoration.restored(trial).anew) lookups.skip_lookup(trial);
    if (!restoration.has_begun(trial) && may_look_up(trial) && lookups.are_inputs_known(trial))
      look_up(trial);
  }
}

// Services that no trial needs are not started.
void Lifecycle::release_held() {
  for (const TrialIndex trial : lookups.release()) {
    if (trials.state(trial) != TrialState::waiting || !dependencies.are_met(trial)) continue;
    const bool has_users = !plan.nodes[trial].needed_by.empty();
    if (until == Until::ended && trials.trial(trial).service && has_users && dependencies.is_unused(trial)) {
      finish_unstarted(trial);
    } else {
      make_ready(trial);
    }
  }
}

bool Lifecycle::is_idle() const {
  return trials.running_awaited() + trials.count(TrialState::starting) + trials.count(TrialState::retrying) +
             attempts.starts_in_flight() + attempts.stops_in_flight() + outputs.in_flight() +
             lookups.in_flight() ==
         0;
}

void Lifecycle::set_timer(Timer::Kind kind, TrialIndex trial, Seconds after, std::optional<Instant> since) {
  timers.set({.at = since.value_or(trials.now()) + std::chrono::ceil<Instant::duration>(after),
              .kind = kind,
              .trial = trial,
              .attempt = trials.attempt(trial)});
}

}  // namespace combu::schedule
