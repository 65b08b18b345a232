// Handles the planner's events. Lifecycle implements the state transitions that follow from the events.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "combu/schedule.hpp"
#include "schedule/failure.hpp"
#include "schedule/lifecycle.hpp"

namespace combu {
namespace {

using schedule::AttemptEnd;
using schedule::Timer;

// Duration for which another run's claim counts. Within this duration, the claiming attempt begins to run,
// unless its combu process has died.
constexpr Seconds k_claim_believed{10};
// If a trial lost its slots to an attempt whose slots already counted as held, the trial requests slots again
// after this pause.
constexpr Seconds k_place_after{1};

}  // namespace

struct Planner::Impl {
  Impl(RunId run_id, const Experiment& experiment, const Plan& plan, PlannerOptions options)
      : run(std::move(run_id)),
        began_at(options.began_at),
        settings{.parallel_max = experiment.parallel_max,
                 .starts_in_flight_max = options.starts_in_flight_max},
        life(experiment, plan, std::move(options)) {}

  // ---- Events

  void on(const Begin& /*event*/) {
    if (life.experiment.deadline > Seconds(0))
      life.set_timer(Timer::Kind::deadline, 0, life.experiment.deadline, began_at);
    if (restoration.is_needed()) {
      restoration.begin();
      life.restore_canaries();
    }
    life.begin_lookups();
    for (TrialIndex trial = 0; trial < trials.size(); ++trial) {
      if (!life.dependencies.are_met(trial)) continue;
      if (!attempts[trial].ready_since) attempts[trial].ready_since = Instant{};
      life.make_ready(trial);
    }
    if (restoration.is_needed()) life.restore_all();
  }

  void on(const AttemptsFound& event) {
    for (const Observation& seen : event.observations) {
      const auto trial = seen.key.run == run ? trials.find(seen.key.trial) : std::nullopt;
      if (!trial || !restoration.add_start(*trial, seen)) continue;
      const Instant at = trials.time_of(*trial, seen.created_at);
      trials.set_attempt(*trial, seen.key.attempt);
      trials.report(
          {.trial = *trial, .state = TrialState::starting, .at = at, .slots = seen.slots, .ready_at = at});
    }
  }

  void on(const StartAnswered& event) {
    life.answer_start(event.trial);
    if (const auto* taken = std::get_if<TakenByOther>(&event.result))
      return lose_claim(event.trial, taken->holder);
    if (const auto* no_room = std::get_if<NoRoom>(&event.result))
      return life.await_room(event.trial, no_room->retry_after);
    life.find_room();
    // If the attempt has ended already, an earlier call to the engine started it, and the answer to that call
    // was lost.
    if (const auto* running = std::get_if<Running>(&event.result))
      see(event.trial, running->observation,
          running->observation.phase == Phase::ended ? Break::was : Break::unknown);
    if (std::holds_alternative<Accepted>(event.result)) accept(event.trial);
    if (attempts.is_stopping(event.trial)) life.send_stop(event.trial);
  }

  void on(const StartFailed& event) {
    life.answer_start(event.trial);
    // Even if the engine's answer was lost, an event of the engine may have shown that the attempt runs.
    const bool is_starting = trials.state(event.trial) == TrialState::starting;
    // combu gave up this start because of the interrupt. The trial stays `starting`, and the process that
    // resumes the run starts it again.
    if (is_starting && life.interrupted && !attempts.is_stopping(event.trial) &&
        event.error.kind() == ErrorKind::cancelled)
      return;
    // After a failed start, the attempt may still begin to run.
    if (attempts.is_stopping(event.trial)) life.send_stop(event.trial);
    if (is_starting)
      life.fail_attempt(event.trial, {.cause = Cause::start,
                                      .exit_code = std::nullopt,
                                      .reason = schedule::start_failure_reason(event.error.message())});
  }

  void on(const StopAnswered& event) {
    attempts.stop_answered();
    const schedule::Attempt& attempt = attempts[event.trial];
    const bool is_meant = trials.attempt(event.trial) == event.attempt && attempts.is_stopping(event.trial);
    // If an attempt that has not begun to run is stopped, the engine sends no event.
    if (trials.state(event.trial) == TrialState::starting && is_meant && !attempt.is_start_in_flight)
      life.fail_attempt(event.trial, {.cause = attempt.stop_cause, .exit_code = std::nullopt, .reason = {}});
  }

  void on(const StopFailed& event) {
    attempts.stop_answered();
    if (trials.attempt(event.trial) != event.attempt || !is_alive(trials.state(event.trial))) return;
    // After a failed stop, the attempt may still run, so no other attempt may follow.
    schedule::EndReason end{fmt::format("could not be stopped: {}", event.error.message())};
    if (attempts.is_stopping(event.trial)) {
      const schedule::EndReason cause = life.stop_cause_reason(event.trial);
      end = {.reason = fmt::format("{}, and {}", cause.reason, end.reason), .stopper = cause.stopper};
    }
    life.fail({.trial = event.trial,
               .state = TrialState::failed,
               .cause = attempts[event.trial].stop_cause,
               .reason = std::move(end.reason),
               .details = {.stopper = end.stopper}});
  }

  void on(const Collected& event) {
    if (!life.outputs.answered(event.trial)) return;
    if (trials.state(event.trial) != TrialState::collecting) {
      life.retry_when_possible(event.trial);
    } else if (event.fault.empty() || event.by_attempt || event.is_lost) {
      life.finish_collecting(event.trial, event.fault, event.is_lost ? Cause::host_lost : Cause::outputs);
    } else if (!life.collect_again(event.trial, event.fault)) {
      life.interrupted = true;
    }
  }

  void on(const CacheLookupAnswered& event) {
    if (!life.lookups.answered(event.trial)) return;
    const bool is_waiting = trials.state(event.trial) == TrialState::waiting;
    if (is_waiting && !event.done.empty()) {
      life.finish({.trial = event.trial, .state = TrialState::skipped, .reason = event.done});
    } else if (is_waiting && life.dependencies.are_met(event.trial)) {
      life.make_ready(event.trial);
    }
    if (life.lookups.in_flight() == 0) life.release_held();
  }

  void on(const Observed& event) {
    if (is_other(event.observation)) {
      life.holdings.see_other(event.observation);
    } else if (const auto trial = find(event.observation)) {
      see(*trial, event.observation, event.engine);
    }
  }

  void on(const Inspected& event) {
    const auto trial = find(event.observation);
    if (!trial || !attempts[*trial].inspected) return;
    const Break engine = *std::exchange(attempts[*trial].inspected, std::nullopt);
    if (event.observation.phase == Phase::gone) {
      life.vanish(*trial, {});
    } else {
      end_attempt(*trial, event.observation, engine);
    }
  }

  void on(const ListingBegins& event) {
    attempts.begin_listing();
    if (event.after_break) life.blame_engine();
  }

  void on(const Listed& event) {
    const bool was_unattended = restoration.awaits_listing();
    std::vector<bool> listed(trials.size());
    std::unordered_set<TrialIndex> pending;
    life.holdings.begin_listing();
    for (const Observation& observation : event.observations) {
      if (is_other(observation)) {
        life.holdings.see_listed(observation);
      } else if (const auto trial = find(observation)) {
        listed[*trial] = true;
        if (observation.phase == Phase::pending) pending.insert(*trial);
        const bool was_away =
            event.after_break || (restoration.awaits_listing() && restoration.may_be_lost(*trial));
        see(*trial, observation, was_away ? Break::was : Break::unknown, true);
      }
    }
    for (const TrialIndex trial : restoration.listed()) {
      if (pending.contains(trial)) {
        accept(trial);
        attempts[trial].is_restored_pending = true;
      } else if (life.failures.has_stopper(trial) && trials.state(trial) == TrialState::starting) {
        life.vanish(trial, {});  // the engine has removed the pending attempt
      } else {
        life.undo_start(trial);
      }
    }
    for (TrialIndex trial = 0; trial < trials.size(); ++trial) {
      const bool is_on_engine = trials.state(trial) == TrialState::running || is_pending(trial);
      if (!listed[trial] && is_on_engine && attempts.must_be_listed(trial))
        life.vanish(trial, was_unattended ? std::string(schedule::k_end_unknown) : "");
    }
  }

  void on(const Interrupt& event) {
    life.interrupted = true;
    if (event.for_good) life.failures.end_retries();
  }

  void on(const Tick& /*event*/) {}

  void on(const Assumed& event) {
    life.holdings.begin_listing();
    life.holdings.see_listed({.key = {.run = RunId("others"), .trial = {}},
                              .experiment = {},
                              .id = "others",
                              .phase = Phase::running,
                              .slots = event.held_by_others});
    (void)restoration.listed();
    life.queue.forget_overtakes();
  }

  void on(const Killed& event) { life.kill(event.kept); }

  void on(const Reopened& event) {
    for (const TrialIndex trial : event.trials)
      trials.report({.trial = trial, .state = TrialState::waiting, .is_reset = true});
  }

  void on(const Removed& event) {
    for (const TrialIndex trial : event.trials)
      life.finish({.trial = trial,
                   .state = TrialState::stopped,
                   .reason = std::string(reason_of(Departure::removed))});
  }

  // If a limit is lowered, attempts beyond the new limit keep running.
  void on(const Adjust& event) {
    settings.take(event);
    for (const std::string& name : event.stopping) {
      const auto trial = trials.find(name);
      if (!trial) continue;
      life.failures.set_stopper(*trial, event.stopper);
      if (life.failures.last(*trial) != nullptr)
        life.fail_finally(*trial, text_of(schedule::stopped_by(event.stopper)));
    }
  }

  // ---- Observations

  // True if the observed container belongs to no trial of this run.
  [[nodiscard]] bool is_other(const Observation& observation) const {
    return observation.key.run != run || !trials.find(observation.key.trial);
  }

  // Returns the trial whose current attempt the observation describes.
  [[nodiscard]] std::optional<TrialIndex> find(const Observation& observation) {
    const auto found = trials.find(observation.key.trial);
    if (!found) return std::nullopt;
    life.catch_up(*found, observation);
    return trials.attempt(*found) == observation.key.attempt ? found : std::nullopt;
  }

  // Takes back the start of a trial that lost its slots to `winner`. The trial then waits until these or
  // other slots are free.
  void lose_claim(TrialIndex trial, const Observation& winner) {
    if (trials.state(trial) != TrialState::starting) return;
    if (life.holdings.see_claim(winner)) {
      life.set_timer(Timer::Kind::claim, trial, k_claim_believed);
      life.undo_start(trial);
    } else if (life.return_slots(trial)) {
      // The slots of `winner` already counted as held, so an immediate retry would choose the same slots
      // again.
      attempts[trial].queued_at = trials.now();
      life.set_timer(Timer::Kind::place, trial, k_place_after);
    }
  }

  void accept(TrialIndex trial) {
    attempts[trial].is_accepted = true;
    accepted.insert(trial);
    if (trials.state(trial) == TrialState::starting) attempts.first_seen(trial);
  }
  // True if the attempt waits on the engine for a place.
  [[nodiscard]] bool is_pending(TrialIndex trial) const {
    return trials.state(trial) == TrialState::starting && attempts[trial].is_accepted;
  }

  // `is_listed`: the observation comes from a listing, and may be older than the last event of the attempt.
  void see(TrialIndex trial, const Observation& observation, Break engine, bool is_listed = false) {
    const TrialState state = trials.state(trial);
    schedule::Attempt& attempt = attempts[trial];
    if (!is_alive(state)) return;
    if (observation.phase == Phase::pending && !observation.placement.host.empty()) trials.set_placed(trial);
    if (observation.phase == Phase::pending) {
      attempt.was_pending = true;
      attempt.awaits_delivery = observation.placement.awaits_delivery;
    }
    // An earlier process has begun the start, and this one has to complete it.
    if (observation.phase == Phase::created && is_pending(trial) && attempt.is_restored_pending &&
        !attempts.is_stopping(trial)) {
      accepted.erase(trial);
      attempt.is_accepted = attempt.is_restored_pending = false;
      return life.undo_start(trial);
    }
    if (!has_run(observation.phase) || attempt.inspected) return;
    // The engine creates a new container if the first container could not start. A late event may be about
    // the first container.
    if (state == TrialState::running && !attempt.id.empty() && attempt.id != observation.id) return;
    if (observation.phase != Phase::pending) accepted.erase(trial);
    if (observation.phase == Phase::gone) {
      // While the start is in flight, the engine may be removing the container of an earlier start, whose
      // answer was lost.
      if (state == TrialState::running || is_pending(trial)) life.vanish(trial, {});
      return;
    }
    if (!observation.placement.start_error.empty() && state == TrialState::starting)
      return life.fail_attempt(trial,
                               {.cause = Cause::start,
                                .exit_code = std::nullopt,
                                .reason = schedule::start_failure_reason(observation.placement.start_error)});
    const bool has_never_run = state == TrialState::starting && !observation.ran_at && !observation.exit_code;
    if (observation.phase == Phase::ended && has_never_run &&
        (observation.stopped || !observation.lost.empty()))
      return life.fail_attempt(trial, {.cause = schedule::cause_of(observation, false),
                                       .exit_code = std::nullopt,
                                       .reason = observation.lost});
    attempt.id = observation.id;
    // An attempt that an earlier process started holds GPUs already.
    if (!observation.slots.gpus.empty()) {
      life.holdings.correct_gpus(trial, observation.slots.gpus, !trials.is_awaited(trial));
      if (trials.trial(trial).service) life.room.started(trial, life.holdings.held_by(trial));
    }
    if (observation.ran_at) attempt.ran_at = observation.ran_at;
    if (state != TrialState::running) life.begin_to_run(trial);
    const bool is_late = is_listed || attempts.is_stopping(trial);
    if (observation.phase == Phase::ended && is_late && !observation.ended_at) {
      attempt.inspected = engine;
      life.commands.emplace_back(
          InspectCommand{.trial = trial, .observation = observation, .attempt = trials.attempt(trial)});
    } else if (observation.phase == Phase::ended) {
      end_attempt(trial, observation, engine);
    } else if (life.departs(trial)) {
      return;  // trials that depend on this trial wait for its next attempt
    } else if (observation.health == Health::healthy) {
      life.become_healthy(trial);
    } else if (observation.health == Health::unhealthy) {
      life.become_unhealthy(trial);
    }
  }

  // ---- Ends of attempts

  // An unknown exit code does not count as success.
  void end_attempt(TrialIndex trial, const Observation& observation, Break engine) {
    if (life.departs(trial)) return life.depart(trial, observation.exit_code);
    if (is_not_by_stop(trial, observation, engine)) attempts.clear_stop_cause(trial);
    const Cause stop_cause = attempts[trial].stop_cause;
    const bool service_at_deadline = trials.trial(trial).service && stop_cause == Cause::stopped;
    AttemptEnd end{
        .exit_code = observation.exit_code, .reason = {}, .engine = engine, .at = observation.ended_at};
    if (attempts[trial].is_service_stop || service_at_deadline) {
      end.as = TrialState::stopped;
      return life.settle(trial, std::move(end));
    }
    const bool ended_by_itself = stop_cause == Cause::none && !observation.stopped && !observation.timed_out;
    if (ended_by_itself && observation.exit_code == 0) {
      end.as = TrialState::succeeded;
      return life.settle(trial, std::move(end));
    }
    // The container ran, but not the program of the trial.
    if (!observation.placement.start_error.empty()) {
      end.cause = Cause::start;
      end.reason = schedule::start_failure_reason(observation.placement.start_error);
      return life.fail_attempt(trial, std::move(end));
    }
    if (observation.stopped && life.failures.has_stopper(trial)) {
      end.cause = Cause::stopped;
      end.engine = Break::was_not;
      return life.fail_attempt(trial, std::move(end));
    }
    end.cause = schedule::cause_of(observation, engine == Break::was);
    end.reason = schedule::engine_reason(observation);
    if (end.cause == Cause::oom && !observation.oom)
      end.reason =
          "perhaps " + schedule::failure_reason(trials.trial(trial), end.cause, observation.exit_code,
                                                life.requests.of(trial).memory)
                           .reason;
    life.fail_attempt(trial, std::move(end));
  }

  // True if the attempt ended by itself or with its host before the run's deadline or the attempt's timeout.
  // The planner may learn of such an end only after it has decided to stop the attempt.
  [[nodiscard]] bool is_not_by_stop(TrialIndex trial, const Observation& ended, Break engine) const {
    const schedule::Attempt& attempt = attempts[trial];
    if (engine == Break::was && ended.exit_code == schedule::k_exit_unknown) return true;
    if (ended.stopped || !ended.ended_at) return false;
    if (attempt.stop_cause == Cause::stopped) return *ended.ended_at < deadline_at();
    const std::optional<Instant> ran_at = ended.ran_at ? ended.ran_at : attempt.ran_at;
    return attempt.stop_cause == Cause::timeout && ran_at &&
           *ended.ended_at - *ran_at < trials.trial(trial).timeout;
  }

  [[nodiscard]] Instant deadline_at() const {
    return began_at.value_or(Instant{}) + std::chrono::ceil<Instant::duration>(life.experiment.deadline);
  }

  // ---- Timers

  void fire(const Timer& timer) {
    using Kind = Timer::Kind;
    if (timer.kind == Kind::deadline) return life.pass_deadline();
    if (timer.kind == Kind::claim) return life.holdings.forget_claim();
    if (timer.kind == Kind::quota) {
      life.engine_room.is_used_up = false;
      return;
    }
    const TrialIndex trial = timer.trial;
    if (trials.attempt(trial) != timer.attempt) return;
    schedule::Attempt& attempt = attempts[trial];
    const TrialState state = trials.state(trial);
    switch (timer.kind) {
      case Kind::give_up:
        if (attempt.is_start_in_flight)
          life.commands.emplace_back(GiveUpCommand{.trial = trial, .attempt = timer.attempt});
        break;
      case Kind::place:
        life.queue.push(trial);
        break;
      case Kind::timeout:
        if (state == TrialState::running) life.stop(trial, Cause::timeout);
        break;
      case Kind::start_deadline:
        if (timer.at - attempt.queued_at >= trials.trial(trial).start_deadline)
          life.pass_start_deadline(trial);
        break;
      case Kind::verdict:
        if (state == TrialState::retrying) life.fail(*life.failures.last(trial));
        break;
      case Kind::collect:
        if (state == TrialState::collecting) life.retry_collecting(trial);
        break;
      case Kind::retry:
        attempt.is_due = state == TrialState::retrying;
        life.retry_when_possible(trial);
        break;
      case Kind::deadline:
      case Kind::quota:
      case Kind::claim:
        break;
    }
  }

  // ---- The end of the run

  [[nodiscard]] bool done() const {
    if (attempts.starts_in_flight() > 0) return false;
    if (life.interrupted) return true;
    const std::size_t open = trials.to_start() + trials.count(TrialState::collecting) + trials.monitored() +
                             life.outputs.in_flight() + attempts.stops_in_flight() + attempts.stopping();
    const std::size_t pending = life.until == Until::started ? unattended_pending() : 0;
    if (restoration.awaits_listing() || open > pending) return false;
    return life.until == Until::started || (trials.unfinished() == 0 && !is_any_service_to_stop());
  }

  // Returns the number of attempts that wait on the engine for a place, and that need no process from now on.
  [[nodiscard]] std::size_t unattended_pending() const {
    return static_cast<std::size_t>(std::ranges::count_if(accepted, [this](TrialIndex one) {
      const Trial& trial = trials.trial(one);
      const bool may_await_delivery =
          !trial.inputs.empty() || trial.params_file || attempts[one].awaits_delivery;
      return is_pending(one) && !may_await_delivery && !is_monitored(life.experiment, trial) &&
             trial.start_deadline == Seconds(0);
    }));
  }

  // True if combu has to stop a running service. combu does not stop a service while a trial that needs the
  // service keeps running.
  [[nodiscard]] bool is_any_service_to_stop() const {
    return std::ranges::any_of(trials.services(), [this](TrialIndex trial) {
      return trials.state(trial) == TrialState::running && life.dependencies.is_unused(trial);
    });
  }

  [[nodiscard]] bool may_start_more() const {
    if (attempts.starts_in_flight() > 0) return true;
    const bool is_any_replaced = std::ranges::any_of(
        life.departures, [](const auto& one) { return one.second == Departure::replaced; });
    return !life.interrupted && (is_any_replaced || trials.to_start() + trials.retriable() > 0);
  }

  Step step(const Event& event, Instant time) {
    Step result;
    trials.begin_step(time);
    if (!began_at) began_at = time;
    std::visit([this](const auto& one) { on(one); }, event);
    // Timers wait for the first listing: an attempt may have ended before its timeout while no process drove
    // the run.
    while (!restoration.awaits_listing()) {
      const auto timer = life.timers.take(time);
      if (!timer) break;
      fire(*timer);
    }
    life.start_ready_trials(settings);
    life.report_waiting_retries();
    result.commands = std::exchange(life.commands, {});
    result.facts = trials.take_facts();
    if (restoration.is_restoring()) life.end_restoring(result.facts);
    if (!restoration.awaits_listing()) result.wake = life.timers.next();
    return result;
  }

  RunId run;
  std::optional<Instant> began_at;  // when the run started; set by the first step
  Settings settings;
  std::unordered_set<TrialIndex> accepted;  // pending attempts; may contain others that ended unseen
  schedule::Lifecycle life;
  schedule::TrialTable& trials = life.trials;
  schedule::Attempts& attempts = life.attempts;
  schedule::Restoration& restoration = life.restoration;
};

Planner::Planner(RunId run, const Experiment& experiment, const Plan& plan, PlannerOptions options)
    : impl_(std::make_unique<Impl>(std::move(run), experiment, plan, std::move(options))) {}
Planner::~Planner() = default;

Step Planner::step(const Event& event, Instant now) {
  return impl_->step(event, now);
}
bool Planner::done() const {
  return impl_->done();
}
bool Planner::may_start_more() const {
  return impl_->may_start_more();
}
TrialState Planner::state(TrialIndex trial) const {
  return impl_->trials.state(trial);
}
const std::array<std::size_t, k_trial_state_count>& Planner::counts() const {
  return impl_->trials.counts();
}
std::size_t Planner::starts_in_flight() const {
  return impl_->attempts.starts_in_flight();
}
bool Planner::is_start_in_flight(TrialIndex trial) const {
  return impl_->attempts[trial].is_start_in_flight;
}
bool Planner::is_pending(TrialIndex trial) const {
  return impl_->is_pending(trial);
}
Explanation Planner::explain(TrialIndex trial) const {
  return impl_->life.explain(trial, impl_->settings);
}
std::size_t Planner::unfinished() const {
  return impl_->trials.unfinished();
}
bool Planner::is_waited_for(TrialIndex trial) const {
  return impl_->trials.is_awaited(trial);
}
const std::string& Planner::undelivered() const {
  return impl_->life.outputs.undelivered();
}
std::optional<TrialIndex> Planner::find(std::string_view name) const {
  return impl_->trials.find(name);
}
const Slots& Planner::held() const {
  return impl_->life.holdings.held();
}
const Slots& Planner::held_by_others() const {
  return impl_->life.holdings.held_by_others();
}
const Settings& Planner::settings() const {
  return impl_->settings;
}

}  // namespace combu
