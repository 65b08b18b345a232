#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "combu/schedule.hpp"
#include "schedule/canaries.hpp"
#include "schedule/failure.hpp"
#include "schedule/gpus.hpp"
#include "schedule/holdings.hpp"
#include "schedule/ready.hpp"
#include "schedule/service_room.hpp"
#include "schedule/timers.hpp"

namespace combu {

namespace {

template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};

// What is known of one trial. Everything else about it is derived from the plan.
struct Progress {
  TrialState state = TrialState::waiting;
  bool is_work = false;           // its end is waited for
  int attempt = 1;                // the one that lives, or comes next
  int failures = 0;               // attempts that have spent a retry
  int losses = 0;                 // attempts that were lost with their host
  Bytes memory{};                 // of the next attempt, where that is more than the file says
  Cause doom = Cause::none;       // why the attempt is being stopped
  std::optional<Break> looking;   // its times are being asked for; of whose end this is known
  std::optional<Instant> ran_at;  // as the engine says
  Instant told_at{};              // of its last fact
  bool collecting = false;        // what is kept of the last attempt is being taken
  bool pause_is_over = false;     // of one that is retrying
  bool recalling = false;         // it is being looked for among what has been done
  bool is_recalled = false;       // that has been answered, or is not wanted
  bool in_flight = false;         // a start has been commanded and not answered
  bool was_started = false;       // it has run, if only for a moment
  bool healthy = false;           // it has been healthy once
  bool tells_of_shape = false;    // it has failed as others of its shape would
  bool unhealthy = false;         // its health check has failed before it ever passed
  bool stop_asked = false;
  std::uint32_t unmet = 0;  // conditions that are not so yet
  std::uint32_t users = 0;  // trials not over that depend on it
  std::string id;           // the engine's, of what runs
  Instant ready_at{};
  std::optional<Instant> met_at = {};  // Fact::ready_at of its next start; nullopt: something is missing yet
  std::uint64_t seen_at = 0;           // the listing that began last before it was seen to run
};

// What the end of an attempt means, while its outputs are taken home.
struct Ended {
  TrialState as = TrialState::failed;  // succeeded, stopped, or failed and perhaps to be tried again
  Cause cause = Cause::none;
  std::optional<int> exit_code;
  std::string words;
  Break engine = Break::unknown;
  std::optional<Instant> at;  // as the engine says
  int tries = 0;              // to take them
};

// What a container has whose end nobody has seen (moby: daemon/daemon.go, restore).
constexpr int k_exit_unknown = 255;

// The pause before outputs are tried again grows from one second to a minute. After so many tries (ten
// minutes) nobody stays for them alone.
constexpr Seconds k_collect_pause_max{60};
constexpr int k_collect_tries_max = 15;
constexpr std::string_view k_not_home = "its outputs are not home: ";

// What waits behind so many others that want something else is not looked at while something will end, nor
// are more services that there was no room for.
constexpr std::size_t k_lines_looked_at_max = 1000;
constexpr std::size_t k_held_back_looked_at_max = 100;

// An engine that is shut down gives what it stops ten to fifteen seconds (moby: daemon/config,
// DefaultShutdownTimeout), and a run bears its absence for a minute (RetryPolicy::give_up).
constexpr Seconds k_verdict_after{75};

constexpr Seconds k_place_after{1};

// Whoever has claimed slots starts what it is for within a moment, or is dead.
constexpr Seconds k_claim_believed{10};

std::string_view unmet_words(Condition condition) {
  switch (condition) {
    case Condition::started:
      return "was not started";
    case Condition::healthy:
      return "did not become healthy";
    case Condition::succeeded:
      return "did not succeed";
    case Condition::finished:
      return "is not over";
  }
  return "";
}

}  // namespace

std::string_view to_string(TrialState state) {
  switch (state) {
    case TrialState::waiting:
      return "waiting";
    case TrialState::ready:
      return "ready";
    case TrialState::starting:
      return "starting";
    case TrialState::running:
      return "running";
    case TrialState::retrying:
      return "retrying";
    case TrialState::collecting:
      return "collecting";
    case TrialState::succeeded:
      return "succeeded";
    case TrialState::skipped:
      return "skipped";
    case TrialState::failed:
      return "failed";
    case TrialState::blocked:
      return "blocked";
    case TrialState::stopped:
      return "stopped";
  }
  return "unknown";
}

std::string_view to_string(Leaving leaving) {
  switch (leaving) {
    case Leaving::no:
      return "no";
    case Leaving::removed:
      return "removed";
    case Leaving::replaced:
      return "replaced";
  }
  return "unknown";
}

std::string_view reason_of(Leaving leaving) {
  switch (leaving) {
    case Leaving::no:
      return "";
    case Leaving::removed:
      return "removed from the file";
    case Leaving::replaced:
      return "replaced by what the file says now";
  }
  return "";
}

struct Planner::Impl {
  using Line = schedule::ReadyLines::Line;
  using ServiceRoom = schedule::ServiceRoom;

  Impl(RunId run_id, const Experiment& the_experiment, const Plan& the_plan, PlannerOptions the_options)
      : run(std::move(run_id)),
        experiment(the_experiment),
        plan(the_plan),
        options(std::move(the_options)),
        settings{.parallel_max = experiment.parallel_max,
                 .starts_in_flight_max = options.starts_in_flight_max},
        ready(the_experiment),
        canaries(the_experiment, [this](TrialIndex trial) { return is_work(trial); }),
        holdings(options.capacity, options.gpus),
        service_room(experiment, plan, options.capacity, options.gpus, options.until) {
    const auto& trials = experiment.trials;
    known.resize(trials.size());
    by_name.reserve(trials.size());
    for (TrialIndex trial = 0; trial < trials.size(); ++trial) {
      by_name.emplace(trials[trial].name, trial);
      known[trial].unmet = static_cast<std::uint32_t>(plan.nodes[trial].needs.size());
      known[trial].users = static_cast<std::uint32_t>(plan.nodes[trial].needed_by.size());
      if (trials[trial].service) services.push_back(trial);
    }
    for (TrialIndex trial = 0; trial < trials.size(); ++trial) known[trial].is_work = is_work(trial);
    unfinished_work = static_cast<std::size_t>(std::ranges::count(known, true, &Progress::is_work));
    counts[index(TrialState::waiting)] = trials.size();
  }

  // Neither a service, nor what only has to run or be healthy for others: that is as good as one.
  [[nodiscard]] bool is_work(TrialIndex trial) const {
    const std::vector<Edge>& users = plan.nodes[trial].needed_by;
    const auto needs_no_end = [](const Edge& edge) {
      return edge.condition == Condition::started || edge.condition == Condition::healthy;
    };
    return !experiment.trials[trial].service && (users.empty() || !std::ranges::all_of(users, needs_no_end));
  }

  static std::size_t index(TrialState state) { return static_cast<std::size_t>(state); }
  [[nodiscard]] const std::string& name(TrialIndex trial) const { return experiment.trials[trial].name; }

  // ---- Events

  void on(const Begin& /*event*/) {
    deadline_at = options.began_at.value_or(now) + std::chrono::ceil<Instant::duration>(experiment.deadline);
    if (experiment.deadline > Seconds(0))
      set_timer(schedule::Timer::Kind::deadline, 0, experiment.deadline, options.began_at);
    restoring = !options.past.empty();
    restore_canaries();
    recall_at_beginning();
    for (TrialIndex trial = 0; trial < known.size(); ++trial) {
      if (known[trial].unmet != 0) continue;
      if (!known[trial].met_at) known[trial].met_at = Instant{};
      make_ready(trial);
    }
    restore_all();
    restoring = false;
  }

  void on(const StartAnswered& event) {
    answered(event.trial);
    if (event.seen && (event.seen->key.run != run || event.seen->key.trial != name(event.trial))) {
      lose_claim(event.trial, *event.seen);
      return;
    }
    // One that has ended already was started by an earlier call, whose answer was lost.
    if (event.seen)
      see(event.trial, *event.seen, event.seen->phase == Phase::ended ? Break::was : Break::unknown);
    if (known[event.trial].doom != Cause::none) command_stop(event.trial);
  }

  void on(const StartFailed& event) {
    answered(event.trial);
    // The engine's events may have shown that it runs although the answer was lost.
    if (known[event.trial].state != TrialState::starting) {
      if (known[event.trial].doom != Cause::none) command_stop(event.trial);
      return;
    }
    // Given up since the run was interrupted: it stays `starting`, and the next process starts it again.
    if (interrupted && known[event.trial].doom == Cause::none && event.error.kind() == ErrorKind::cancelled)
      return;
    // It may begin to run yet.
    if (known[event.trial].doom != Cause::none) command_stop(event.trial);
    attempt_failed(event.trial, Cause::start, std::nullopt,
                   fmt::format("could not be started: {}", event.error.message()));
  }

  void on(const StopAnswered& event) {
    --stops_in_flight;
    const Progress& it = known[event.trial];
    // One that the engine had not begun to run is over without a word.
    const bool is_meant = it.attempt == event.attempt && it.doom != Cause::none;
    if (it.state == TrialState::starting && is_meant && !it.in_flight)
      attempt_failed(event.trial, it.doom, std::nullopt);
  }

  void on(const StopFailed& event) {
    --stops_in_flight;
    const Progress& it = known[event.trial];
    if (it.attempt != event.attempt) return;
    if (!is_alive(it.state)) return;
    // It may live on: there must be no other attempt.
    std::string why = fmt::format("could not be stopped: {}", event.error.message());
    if (it.doom != Cause::none) why = fmt::format("{}, and {}", words_of_doom(event.trial), why);
    fail({.trial = event.trial, .state = TrialState::failed, .cause = it.doom, .reason = std::move(why)});
  }

  void on(const Collected& event) {
    if (!std::exchange(known[event.trial].collecting, false)) return;
    --collecting;
    if (known[event.trial].state != TrialState::collecting) {
      retry_when_possible(event.trial);
    } else if (event.fault.empty() || event.by_attempt) {
      outputs_taken(event.trial, event.fault);
    } else {
      outputs_not_taken(event.trial, event.fault);
    }
  }

  void on(const Recalled& event) {
    Progress& it = known[event.trial];
    if (!std::exchange(it.recalling, false)) return;
    it.is_recalled = true;
    --recalling;
    if (it.state == TrialState::waiting && !event.done.empty()) {
      finish(event.trial, {.trial = event.trial, .state = TrialState::skipped, .reason = event.done});
    } else if (it.state == TrialState::waiting && it.unmet == 0) {
      make_ready(event.trial);
    }
    if (recalling == 0) make_kept_ready();
  }

  void on(const Seen& event) {
    if (event.sighting.key.run != run) {
      holdings.see_other(event.sighting);
    } else if (const auto trial = find(event.sighting)) {
      see(*trial, event.sighting, event.engine);
    }
  }

  void on(const Looked& event) {
    const auto trial = find(event.sighting);
    if (!trial || !known[*trial].looking) return;
    const Break engine = *std::exchange(known[*trial].looking, std::nullopt);
    if (event.sighting.phase == Phase::gone) {
      vanish(*trial);
    } else {
      end(*trial, event.sighting, engine);
    }
  }

  void on(const ListingBegins& event) {
    ++listings;
    if (event.after_break) take_as_lost();
  }

  void on(const Listed& event) {
    std::vector<bool> listed(known.size());
    holdings.begin_listing();
    for (const Sighting& sighting : event.sightings) {
      if (sighting.key.run != run) {
        holdings.see_listed(sighting);
      } else if (const auto trial = find(sighting)) {
        listed[*trial] = true;
        const bool was_away = event.after_break || (restored && may_be_lost(options.past[*trial]));
        see(*trial, sighting, was_away ? Break::was : Break::unknown, true);
      }
    }
    restored = false;
    for (const TrialIndex trial : std::exchange(unsure, {})) take_back_start(trial);
    for (TrialIndex trial = 0; trial < known.size(); ++trial) {
      if (!listed[trial] && known[trial].state == TrialState::running && known[trial].seen_at < listings) {
        vanish(trial);
      }
    }
  }

  void on(const Interrupt& event) {
    interrupted = true;
    is_last |= event.for_good;
  }

  void on(const Tick& /*event*/) {}

  // What is alive beyond a lower limit lives on.
  void on(const Adjust& event) {
    settings.take(event);
    for (const std::string& name : event.stopping) {
      const auto trial = by_name.find(name);
      if (trial == by_name.end()) continue;
      stoppers.insert_or_assign(trial->second, event.stopper);
      if (failure_before(trial->second) != nullptr)
        finish_last_failure(trial->second, schedule::stopped_by(event.stopper));
    }
  }

  // ---- What an earlier process has left

  // Before anything is ready: what has begun is the canary of its shape, unless one has succeeded.
  void restore_canaries() {
    for (TrialIndex trial = 0; trial < options.past.size(); ++trial)
      if (has_succeeded(options.past[trial].state)) canaries.pass(trial);
    for (TrialIndex trial = 0; trial < options.past.size(); ++trial) {
      const TrialState state = options.past[trial].state;
      // One that has failed says nothing of what a person tries again, or of what has been edited since.
      const bool is_tried = !is_over(state) && state != TrialState::waiting;
      if (is_tried && options.past[trial].leaving == Leaving::no) (void)canaries.started(trial);
    }
  }

  void restore_all() {
    if (options.past.empty()) return;
    restored = true;
    // What the ends mean to others comes when all stand where they stood.
    spreading = true;
    for (TrialIndex trial = 0; trial < known.size(); ++trial) restore(trial, options.past[trial]);
    spread_all();
    halt_after_failures();
    // What is on record is no news; what follows from it may not have got there.
    const auto is_known = [this](const Fact& fact) { return options.past[fact.trial].state == fact.state; };
    std::erase_if(out->facts, is_known);
  }

  void restore(TrialIndex trial, const Past& past) {
    Progress& it = known[trial];
    it.attempt = past.attempt;
    if (past.leaving != Leaving::no) return restore_leaving(trial, past);
    for (const Cause cause : past.earlier) spend(trial, cause);
    if (past.was_started && !std::exchange(it.was_started, true)) satisfy(trial, Condition::started);
    if (past.was_healthy && !std::exchange(it.healthy, true)) satisfy(trial, Condition::healthy);
    if (is_alive(past.state)) {
      restore_alive(trial, past);
    } else if (past.state == TrialState::retrying || past.state == TrialState::ready) {
      move(trial, TrialState::retrying);
      const bool was_awaiting = past.cause == Cause::stopped && !may_retry(trial, Cause::stopped);
      if (was_awaiting && !may_be_lost(past)) {
        fail(trial, Cause::stopped, past.exit_code, stop_words(trial, past.exit_code));
        return;
      }
      spend(trial, was_awaiting ? Cause::host_lost : past.cause);
      remember_failure(trial, past.cause, past.exit_code,
                       past.reason.substr(0, past.reason.find("; attempt ")));
      next_attempt(trial, Seconds(0));
    } else if (past.state == TrialState::collecting) {
      restore_collecting(trial, past);
    } else if (is_over(past.state)) {
      if (past.root) roots.emplace(trial, *past.root);
      finish(trial, {.trial = trial, .state = past.state, .cause = past.cause, .exit_code = past.exit_code});
    }
  }

  // What it was to others says nothing of the next one.
  void restore_leaving(TrialIndex trial, const Past& past) {
    known[trial].was_started = past.was_started;
    leaving.emplace(trial, past.leaving);
    restore_alive(trial, past);
    doom(trial, Cause::stopped);
  }

  void restore_collecting(TrialIndex trial, const Past& past) {
    Ended ended{.cause = past.cause, .exit_code = past.exit_code, .engine = Break::was_not};
    if (past.cause == Cause::none) {
      ended.as = experiment.trials[trial].service ? TrialState::stopped : TrialState::succeeded;
    } else {
      ended.words = past.reason.substr(0, past.reason.find(fmt::format("; {}", k_not_home)));
    }
    take_outputs(trial, std::move(ended));
  }

  // Whether its last attempt may have ended with the engine.
  [[nodiscard]] bool may_be_lost(const Past& past) const {
    return !past.ran_at || !options.engine_began_at || *options.engine_began_at > *past.ran_at;
  }

  // Of what was commanded last the record may lack the facts: then the engine knows how far a trial has come.
  void catch_up(TrialIndex trial, const Sighting& sighting) {
    Progress& it = known[trial];
    if (!restored || !is_alive(it.state) || sighting.key.attempt <= it.attempt) return;
    give_back_slots(trial);
    tell({.trial = trial,
          .state = TrialState::retrying,
          .ran = it.was_started,
          .reason = "how it ended is not on record"});
    it.attempt = sighting.key.attempt;
    move(trial, TrialState::starting);
    take_slots(trial, sighting.slots);
    tell({.trial = trial, .state = TrialState::starting, .slots = sighting.slots, .ready_at = now});
    if (it.doom != Cause::none) command_stop(trial);
  }

  void restore_alive(TrialIndex trial, const Past& past) {
    move(trial, past.state);
    take_slots(trial, past.leaving == Leaving::no ? wanted(trial) : past.slots);
    known[trial].ran_at = past.ran_at;
    known[trial].told_at = past.ran_at.value_or(Instant{});
    if (past.doom != Cause::none) {
      known[trial].doom = past.doom;
      ++doomed;
      command_stop(trial);
    }
    const Seconds timeout = experiment.trials[trial].timeout;
    if (past.state == TrialState::starting) {
      unsure.push_back(trial);
    } else if (timeout > Seconds(0)) {
      set_timer(schedule::Timer::Kind::timeout, trial, timeout, past.ran_at);
    }
  }

  // An attempt has failed for this reason.
  void spend(TrialIndex trial, Cause cause) {
    ++(cause == Cause::host_lost ? known[trial].losses : known[trial].failures);
    if (cause == Cause::oom) grow_memory(trial);
  }

  // ---- Sightings

  // The trial whose present attempt this is.
  [[nodiscard]] std::optional<TrialIndex> find(const Sighting& sighting) {
    const auto found = by_name.find(sighting.key.trial);
    if (found == by_name.end()) return std::nullopt;
    catch_up(found->second, sighting);
    return known[found->second].attempt == sighting.key.attempt ? std::optional(found->second) : std::nullopt;
  }

  // Its slots are left to `winner`, and it waits for others, or for these to be free again.
  void lose_claim(TrialIndex trial, const Sighting& winner) {
    if (known[trial].state != TrialState::starting) return;
    if (holdings.see_claim(winner)) {
      set_timer(schedule::Timer::Kind::claim, trial, k_claim_believed);
      take_back_start(trial);
    } else if (take_back_slots(trial)) {
      // What the engine counts is not known here yet: at once it would be the same.
      move(trial, TrialState::ready);
      known[trial].ready_at = now;
      set_timer(schedule::Timer::Kind::place, trial, k_place_after);
    }
  }

  // It turns out that nothing has been started.
  void take_back_start(TrialIndex trial) {
    if (take_back_slots(trial)) enter_line(trial);
  }

  bool take_back_slots(TrialIndex trial) {
    if (known[trial].state != TrialState::starting) return false;
    if (known[trial].doom != Cause::none) {
      attempt_failed(trial, known[trial].doom, std::nullopt);
      return false;
    }
    give_back_slots(trial);
    tell_ready(trial);
    return true;
  }

  // `listed`: it may have been so for a while.
  void see(TrialIndex trial, const Sighting& sighting, Break engine, bool listed = false) {
    const TrialState state = known[trial].state;
    if (!is_alive(state)) return;
    if (sighting.phase == Phase::created || known[trial].looking) return;
    // What an engine could not start is made anew, and what is told late may be of the first.
    std::string& id = known[trial].id;
    if (state == TrialState::running && !id.empty() && id != sighting.id) return;
    if (sighting.phase == Phase::gone) {
      // While the start is in flight this may be the engine's clearing away of what a lost call left behind.
      if (state == TrialState::running) vanish(trial);
      return;
    }
    id = sighting.id;
    // What an earlier process has started has its GPUs already.
    if (!sighting.slots.gpus.empty()) {
      holdings.correct_gpus(trial, sighting.slots.gpus, may_stay(trial));
      if (experiment.trials[trial].service) service_room.started(trial, holdings.held_by(trial));
    }
    if (sighting.ran_at) known[trial].ran_at = sighting.ran_at;
    if (state != TrialState::running) run_began(trial);
    const bool is_late = listed || known[trial].doom != Cause::none;
    if (sighting.phase == Phase::ended && is_late && !sighting.ended_at) {
      known[trial].looking = engine;
      out->commands.emplace_back(
          LookCommand{.trial = trial, .sighting = sighting, .attempt = known[trial].attempt});
    } else if (sighting.phase == Phase::ended) {
      end(trial, sighting, engine);
    } else if (leaving.contains(trial)) {
      return;  // others wait for the next one
    } else if (sighting.health == Health::healthy) {
      become_healthy(trial);
    } else if (sighting.health == Health::unhealthy && !known[trial].healthy) {
      known[trial].unhealthy = true;
      block_users(trial, Condition::healthy);
    }
  }

  void run_began(TrialIndex trial) {
    const bool is_first = !std::exchange(known[trial].was_started, true);
    known[trial].seen_at = listings;
    move(trial, TrialState::running);
    const Instant ran_at = moment_of(trial, known[trial].ran_at);
    tell({.trial = trial, .state = TrialState::running, .at = ran_at, .id = known[trial].id});
    const Seconds timeout = experiment.trials[trial].timeout;
    if (timeout > Seconds(0)) set_timer(schedule::Timer::Kind::timeout, trial, timeout, ran_at);
    if (leaving.contains(trial)) return;
    if (is_first) satisfy(trial, Condition::started);
    stop_when_unused(trial);
  }

  void become_healthy(TrialIndex trial) {
    if (std::exchange(known[trial].healthy, true)) return;
    tell({.trial = trial, .state = TrialState::running, .healthy = true});
    satisfy(trial, Condition::healthy);
  }

  // An ended trial whose exit code nobody knows has not been seen to succeed.
  void end(TrialIndex trial, const Sighting& sighting, Break engine) {
    if (leaving.contains(trial)) return left(trial, sighting.exit_code);
    const Progress& it = known[trial];
    if (is_not_its_doom(trial, sighting, engine)) end_doom(trial);
    const bool service_at_deadline = experiment.trials[trial].service && it.doom == Cause::stopped;
    const auto ended_with = [&](TrialState as) {
      ended(trial, {.as = as, .exit_code = sighting.exit_code, .at = sighting.ended_at});
    };
    if (it.stop_asked || service_at_deadline) {
      ended_with(TrialState::stopped);
    } else if (it.doom == Cause::none && sighting.exit_code == 0 && !sighting.stopped) {
      ended_with(TrialState::succeeded);
    } else if (sighting.stopped && stoppers.contains(trial)) {
      attempt_failed(trial, Cause::stopped, sighting.exit_code, {}, Break::was_not, sighting.ended_at);
    } else {
      const Cause cause = schedule::cause_of(sighting, engine == Break::was);
      std::string words;
      if (cause == Cause::oom && !sighting.oom)
        words = "perhaps " + schedule::failure_text(experiment.trials[trial], cause, sighting.exit_code,
                                                    wanted(trial).memory);
      attempt_failed(trial, cause, sighting.exit_code, std::move(words), engine, sighting.ended_at);
    }
  }

  // Whether it had ended by itself, or with its host, before its time was over: that may be heard of late.
  [[nodiscard]] bool is_not_its_doom(TrialIndex trial, const Sighting& ended, Break engine) const {
    const Progress& it = known[trial];
    if (engine == Break::was && ended.exit_code == k_exit_unknown) return true;
    if (ended.stopped || !ended.ended_at) return false;
    if (it.doom == Cause::stopped) return *ended.ended_at < deadline_at;
    const std::optional<Instant> ran_at = ended.ran_at ? ended.ran_at : it.ran_at;
    return it.doom == Cause::timeout && ran_at &&
           *ended.ended_at - *ran_at < experiment.trials[trial].timeout;
  }

  // The attempt that was to be stopped for the edited file is over.
  void left(TrialIndex trial, std::optional<int> exit_code) {
    const Leaving how = leaving.at(trial);
    Fact fact{.trial = trial,
              .state = TrialState::stopped,
              .exit_code = exit_code,
              .reason = std::string(reason_of(how))};
    if (how == Leaving::removed) {
      finish(trial, std::move(fact));
    } else {
      fact.cause = Cause::stopped;
      begin_anew(trial, std::move(fact));
    }
  }

  // As if it had never been started.
  void begin_anew(TrialIndex trial, Fact end) {
    give_back_slots(trial);
    end_doom(trial);
    leaving.erase(trial);
    stoppers.erase(trial);
    move(trial, TrialState::waiting);
    end.state = TrialState::retrying;
    end.ran = known[trial].was_started;
    tell(std::move(end));
    const Progress& before = known[trial];
    known[trial] = {.is_work = before.is_work,
                    .attempt = before.attempt + 1,
                    .unmet = before.unmet,
                    .users = before.users};
    const std::vector<Edge>& needs = plan.nodes[trial].needs;
    const auto never =
        std::ranges::find_if(needs, [this](const Edge& need) { return is_out_of_reach(need); });
    if (!halted.empty()) {
      finish(trial, {.trial = trial, .state = TrialState::blocked, .reason = "not started: " + halted});
    } else if (never != needs.end()) {
      block_by_need(trial, never->trial, never->condition);
    } else if (known[trial].unmet == 0) {
      make_ready(trial);
    }
  }

  [[nodiscard]] bool is_out_of_reach(const Edge& need) const {
    const Progress& it = known[need.trial];
    switch (need.condition) {
      case Condition::started:
        return is_over(it.state) && !it.was_started && it.state != TrialState::skipped;
      case Condition::healthy:
        return !it.healthy && (is_over(it.state) || it.unhealthy) && it.state != TrialState::skipped;
      case Condition::succeeded:
        return is_over(it.state) && !has_succeeded(it.state);
      case Condition::finished:
        return false;
    }
    return false;
  }

  // Of one that never ran, or has been removed, there is nothing to take.
  void ended(TrialIndex trial, Ended ended) {
    const bool is_there = known[trial].state == TrialState::running && ended.exit_code;
    const bool failed = ended.as == TrialState::failed;
    if (is_there && !experiment.trials[trial].outputs.empty() &&
        (!failed || experiment.collect.on == CollectOn::always)) {
      take_outputs(trial, std::move(ended));
      return;
    }
    if (is_there && failed) collect({.trial = trial, .tail = true});
    conclude(trial, ended);
  }

  void conclude(TrialIndex trial, const Ended& ended) {
    if (ended.as == TrialState::failed) {
      conclude_failure(trial, ended);
    } else {
      finish(trial, {.trial = trial,
                     .state = ended.as,
                     .exit_code = ended.exit_code,
                     .at = moment_of(trial, ended.at)});
    }
  }

  // ---- Outputs

  void take_outputs(TrialIndex trial, Ended ended) {
    const bool failed = ended.as == TrialState::failed;
    give_back_slots(trial);
    move(trial, TrialState::collecting);
    tell_collecting(trial, ended, ended.words);
    ended.at.reset();  // what follows is of the moment when they are home
    collect({.trial = trial, .tail = failed, .outputs = true, .failed = failed});
    endings.insert_or_assign(trial, std::move(ended));
  }

  void tell_collecting(TrialIndex trial, const Ended& ended, std::string reason) {
    tell({.trial = trial,
          .state = TrialState::collecting,
          .cause = ended.cause,
          .ran = true,
          .exit_code = ended.exit_code,
          .reason = std::move(reason),
          .at = moment_of(trial, ended.at)});
  }

  // `fault`: what its attempt is to blame for; empty for none.
  void outputs_taken(TrialIndex trial, const std::string& fault) {
    Ended ended = std::move(endings.extract(trial).mapped());
    if (endings.empty()) undelivered.clear();
    if (!fault.empty() && ended.as == TrialState::succeeded) {
      ended.as = TrialState::failed;
      ended.cause = Cause::outputs;
      ended.words = fault;
    } else if (!fault.empty() && ended.as == TrialState::failed) {
      ended.words += fmt::format("; outputs: {}", fault);
    }
    conclude(trial, ended);
  }

  // The disk may be full, or the engine be away.
  void outputs_not_taken(TrialIndex trial, const std::string& fault) {
    Ended& ended = endings.at(trial);
    undelivered = fmt::format("{}: {}", name(trial), fault);
    if (ended.tries == 0)
      tell_collecting(
          trial, ended,
          fmt::format("{}{}{}{}", ended.words, ended.words.empty() ? "" : "; ", k_not_home, fault));
    ++ended.tries;
    if (ended.tries >= k_collect_tries_max && nothing_will_end() && counts[index(TrialState::ready)] == 0) {
      interrupted = true;
      return;
    }
    const Seconds pause = std::min(k_collect_pause_max, Seconds(std::pow(2, std::min(ended.tries, 10) - 1)));
    set_timer(schedule::Timer::Kind::collect, trial, pause);
  }

  void vanish(TrialIndex trial) {
    if (known[trial].stop_asked) {
      finish(trial, {.trial = trial, .state = TrialState::stopped});
    } else {
      attempt_failed(trial, Cause::stopped, std::nullopt);
    }
  }

  // ---- Failure

  // Those of its next attempt, but for GPUs.
  [[nodiscard]] Slots wanted(TrialIndex trial) const {
    Slots slots = experiment.trials[trial].slots;
    slots.memory = std::max(slots.memory, known[trial].memory);
    return slots;
  }

  [[nodiscard]] std::string words_of_doom(TrialIndex trial) const {
    const Progress& it = known[trial];
    if (const auto how = leaving.find(trial); how != leaving.end())
      return std::string(reason_of(how->second));
    if (it.doom == Cause::stopped) return "stopped: " + halted;
    return schedule::failure_text(experiment.trials[trial], it.doom, std::nullopt, {});
  }

  [[nodiscard]] std::string stop_words(TrialIndex trial, std::optional<int> exit_code) const {
    if (const auto stopper = stoppers.find(trial); stopper != stoppers.end())
      return schedule::stopped_by(stopper->second);
    return schedule::failure_text(experiment.trials[trial], Cause::stopped, exit_code, {});
  }

  // `words`: empty for those of the cause.
  void attempt_failed(TrialIndex trial, Cause cause, std::optional<int> exit_code, std::string words = {},
                      Break engine = Break::unknown, std::optional<Instant> at = std::nullopt) {
    if (leaving.contains(trial)) return left(trial, exit_code);
    if (known[trial].doom != Cause::none) {
      cause = known[trial].doom;
      words = words_of_doom(trial);
    } else if (words.empty() && cause == Cause::stopped) {
      words = stop_words(trial, exit_code);
    } else if (words.empty()) {
      words = schedule::failure_text(experiment.trials[trial], cause, exit_code, wanted(trial).memory);
    }
    ended(trial,
          {.cause = cause, .exit_code = exit_code, .words = std::move(words), .engine = engine, .at = at});
  }

  void conclude_failure(TrialIndex trial, const Ended& ended) {
    if (may_retry(trial, ended.cause)) {
      retry(trial, ended);
    } else if (ended.cause == Cause::stopped && ended.exit_code && ended.engine == Break::unknown &&
               may_retry(trial, Cause::host_lost)) {
      await_verdict(trial, ended);
    } else {
      const int attempt = known[trial].attempt;
      const std::string after = attempt > 1 ? fmt::format(", after {} attempts", attempt) : "";
      fail(trial, ended.cause, ended.exit_code, ended.words + after, ended.at);
    }
  }

  void collect(CollectCommand command) {
    known[command.trial].collecting = true;
    ++collecting;
    command.attempt = known[command.trial].attempt;
    out->commands.emplace_back(command);
  }

  [[nodiscard]] bool may_retry(TrialIndex trial, Cause cause) const {
    const Retries& retries = experiment.trials[trial].retries;
    if (is_last || !halted.empty() || retries.max == 0) return false;
    if (!retries.on.test(static_cast<std::size_t>(cause))) return false;
    if (cause == Cause::host_lost) return known[trial].losses < k_losses_max;
    return known[trial].failures < retries.max;
  }

  void retry(TrialIndex trial, const Ended& ended) {
    Progress& it = known[trial];
    give_back_slots(trial);
    spend(trial, ended.cause);
    // A host that is back is tried at once.
    const Seconds pause = ended.cause == Cause::host_lost
                              ? Seconds(0)
                              : schedule::pause_after(experiment.trials[trial].retries, it.failures);
    move(trial, TrialState::retrying);
    tell({.trial = trial,
          .state = TrialState::retrying,
          .cause = ended.cause,
          .ran = it.was_started,
          .exit_code = ended.exit_code,
          .reason = fmt::format("{}; attempt {} in {}", ended.words, it.attempt + 1, to_string(pause)),
          .at = moment_of(trial, ended.at)});
    remember_failure(trial, ended.cause, ended.exit_code, ended.words);
    next_attempt(trial, pause);
  }

  // Of one that waits for its next attempt; nullptr: it waits for its first, or no failure is known.
  [[nodiscard]] const Fact* failure_before(TrialIndex trial) const {
    const TrialState state = known[trial].state;
    const auto failure = last_failures.find(trial);
    if (failure == last_failures.end()) return nullptr;
    return state == TrialState::retrying || state == TrialState::ready ? &failure->second : nullptr;
  }

  // In case there is no next attempt after all.
  void remember_failure(TrialIndex trial, Cause cause, std::optional<int> exit_code, std::string words) {
    last_failures.insert_or_assign(trial, Fact{.trial = trial,
                                               .state = state_after(cause),
                                               .attempt = known[trial].attempt,
                                               .cause = cause,
                                               .exit_code = exit_code,
                                               .reason = std::move(words)});
  }

  // An engine that is restarted stops what runs and goes away some seconds later: who stopped it shows then.
  void await_verdict(TrialIndex trial, const Ended& ended) {
    Progress& it = known[trial];
    give_back_slots(trial);
    move(trial, TrialState::retrying);
    tell({.trial = trial,
          .state = TrialState::retrying,
          .cause = Cause::stopped,
          .ran = it.was_started,
          .exit_code = ended.exit_code,
          .reason = ended.words + "; tried again if the engine is being restarted",
          .at = moment_of(trial, ended.at)});
    remember_failure(trial, Cause::stopped, ended.exit_code, ended.words);
    it.pause_is_over = false;
    set_timer(schedule::Timer::Kind::verdict, trial, k_verdict_after);
    awaiting.push_back(trial);
  }

  // The engine was away: what was stopped just before was stopped by it.
  void take_as_lost() {
    for (auto& [trial, ended] : endings) {
      if (ended.cause != Cause::stopped || ended.engine != Break::unknown) continue;
      ended.cause = Cause::host_lost;
      ended.words = schedule::failure_text(experiment.trials[trial], ended.cause, ended.exit_code, {});
    }
    for (const TrialIndex trial : std::exchange(awaiting, {})) {
      Progress& it = known[trial];
      if (it.state != TrialState::retrying) continue;
      ++it.losses;
      next_attempt(trial, Seconds(0));
    }
  }

  void next_attempt(TrialIndex trial, Seconds pause) {
    Progress& it = known[trial];
    ++it.attempt;
    stoppers.erase(trial);
    end_doom(trial);
    it.ran_at.reset();
    it.pause_is_over = false;
    set_timer(schedule::Timer::Kind::retry, trial, pause);
  }

  // As far as there will be room for it beside those that stay.
  void grow_memory(TrialIndex trial) {
    Slots grown = wanted(trial);
    const auto had = static_cast<double>(grown.memory.count);
    grown.memory.count = static_cast<std::int64_t>(had * experiment.trials[trial].retries.grow_memory);
    if (options.capacity) {
      grown.memory = std::min(grown.memory, memory_in_time(trial));
      // Others that stay may keep it from them both for ever.
      if (!restored && !service_room.may_want(trial, grown, holdings.left_in_time()))
        grown.memory = std::min(grown.memory, memory_now(trial));
    }
    known[trial].memory = std::max(known[trial].memory, grown.memory);
    service_room.wants(trial, wanted(trial));
  }

  // What its company leaves, and those that stand as long as the work does. Without anybody who stops them
  // all services do.
  [[nodiscard]] Bytes memory_in_time(TrialIndex trial) const {
    Bytes left = options.capacity->memory;
    const std::vector<TrialIndex> company = company_of(trial);
    for (const TrialIndex one : company) left.count -= wanted(one).memory.count;
    for (const TrialIndex one : services) {
      const bool stands = options.until == Until::started || plan.nodes[one].needed_by.empty();
      if (one != trial && stands && !std::ranges::binary_search(company, one) && !is_over(known[one].state))
        left.count -= wanted(one).memory.count;
    }
    return left;
  }

  // What those leave that stay and run now, and those of its company that do not run yet.
  [[nodiscard]] Bytes memory_now(TrialIndex trial) const {
    Bytes left = holdings.left_in_time().memory;
    for (const TrialIndex one : company_of(trial))
      left.count -= wanted(one).memory.count - holdings.held_by(one).memory.count;
    return left;
  }

  // What runs beside it, and may do so as long as it does.
  [[nodiscard]] std::vector<TrialIndex> company_of(TrialIndex trial) const {
    return schedule::company_of(
        trial, plan, [this](TrialIndex one) { return may_stay(one) && !is_over(known[one].state); });
  }

  void retry_when_possible(TrialIndex trial) {
    const Progress& it = known[trial];
    if (it.state != TrialState::retrying || !it.pause_is_over || it.collecting || it.in_flight) return;
    known[trial].met_at = now;
    enter_line(trial);
    again.push_back(trial);
  }

  // Those that have not been started at once wait for slots, or a place; for a later process otherwise.
  void tell_again() {
    for (const TrialIndex trial : std::exchange(again, {}))
      if (known[trial].state == TrialState::ready && !interrupted) tell_ready(trial);
  }

  void tell_ready(TrialIndex trial) {
    tell({.trial = trial, .state = TrialState::ready, .slots = wanted(trial), .ready_at = now});
  }

  // Ends an attempt that nobody has time for any more.
  void doom(TrialIndex trial, Cause cause) {
    Progress& it = known[trial];
    if (it.doom != Cause::none || it.stop_asked) return;
    it.doom = cause;
    ++doomed;
    // A later process must know why it ends.
    tell({.trial = trial, .state = it.state, .cause = cause, .ran = it.was_started});
    // What is being started is stopped when the engine has answered, if it does so in time.
    if (!it.in_flight) command_stop(trial);
    if (it.in_flight && cause == Cause::start_deadline)
      set_timer(schedule::Timer::Kind::give_up, trial, options.answer_after);
  }

  // Its attempt is over.
  void end_doom(TrialIndex trial) {
    if (std::exchange(known[trial].doom, Cause::none) != Cause::none) --doomed;
  }

  void command_stop(TrialIndex trial) {
    const TrialState state = known[trial].state;
    if (!is_alive(state)) return;
    ++stops_in_flight;
    out->commands.emplace_back(StopCommand{.trial = trial, .attempt = known[trial].attempt});
  }

  // From now on nothing starts.
  void halt(std::string why) {
    if (!halted.empty()) return;
    halted = std::move(why);
    // All of them before what it means to others, each of whom is told this reason.
    const bool nested = std::exchange(spreading, true);
    for (TrialIndex trial = 0; trial < known.size(); ++trial) {
      const TrialState state = known[trial].state;
      if (failure_before(trial) != nullptr) {
        finish_last_failure(trial, halted);
      } else if (state == TrialState::waiting || state == TrialState::ready) {
        finish(trial, {.trial = trial, .state = TrialState::blocked, .reason = "not started: " + halted});
      }
    }
    if (!nested) spread_all();
  }

  // It is not tried again after all.
  void finish_last_failure(TrialIndex trial, const std::string& why) {
    Fact failure = last_failures.at(trial);
    known[trial].attempt = failure.attempt;
    failure.reason = fmt::format("{}; not tried again: {}", failure.reason, why);
    fail(std::move(failure));
  }

  void halt_after_failures() {
    const std::size_t failed = counts[index(TrialState::failed)];
    if (experiment.failures_max == 0 || failed < experiment.failures_max) return;
    halt(fmt::format("{} trial{} failed, as many as may (max_failures)", failed,
                     failed == 1 ? " has" : "s have"));
  }

  void deadline_passed() {
    halt(fmt::format("the run's deadline of {} has passed", to_string(experiment.deadline)));
    for (TrialIndex trial = 0; trial < known.size(); ++trial) {
      const TrialState state = known[trial].state;
      if (!is_alive(state)) continue;
      if (experiment.trials[trial].service && state == TrialState::running) {
        ask_stop(trial);
      } else {
        doom(trial, Cause::stopped);
      }
    }
  }

  // ---- Timers

  void set_timer(schedule::Timer::Kind kind, TrialIndex trial, Seconds after,
                 std::optional<Instant> since = std::nullopt) {
    timers.set({.at = since.value_or(now) + std::chrono::ceil<Instant::duration>(after),
                .kind = kind,
                .trial = trial,
                .attempt = known[trial].attempt});
  }

  void fire_timers() {
    while (const auto timer = timers.take(now)) fire(*timer);
  }

  void fire(const schedule::Timer& timer) {
    using Kind = schedule::Timer::Kind;
    if (timer.kind == Kind::deadline) return deadline_passed();
    if (timer.kind == Kind::claim) return holdings.forget_claim();
    Progress& it = known[timer.trial];
    if (it.attempt != timer.attempt) return;
    if (timer.kind == Kind::give_up && it.in_flight)
      out->commands.emplace_back(GiveUpCommand{.trial = timer.trial, .attempt = timer.attempt});
    if (timer.kind == Kind::place) ready.push(timer.trial, wanted(timer.trial));
    if (timer.kind == Kind::timeout && it.state == TrialState::running) doom(timer.trial, Cause::timeout);
    const Seconds start_limit = experiment.trials[timer.trial].start_deadline;
    if (timer.kind == Kind::start_deadline && it.state == TrialState::starting &&
        timer.at - it.ready_at >= start_limit)
      doom(timer.trial, Cause::start_deadline);
    if (timer.kind == Kind::verdict && it.state == TrialState::retrying)
      return fail(last_failures.at(timer.trial));
    if (timer.kind == Kind::collect && it.state == TrialState::collecting)
      collect({.trial = timer.trial,
               .outputs = true,
               .failed = endings.at(timer.trial).as == TrialState::failed});
    if (timer.kind == Kind::retry && it.state == TrialState::retrying) {
      it.pause_is_over = true;
      retry_when_possible(timer.trial);
    }
  }

  // ---- Changes of state

  // What it depends on is so.
  void make_ready(TrialIndex trial) {
    // What an earlier process has got further than that is restored.
    if (restoring && options.past[trial].state != TrialState::waiting) return;
    if (!known[trial].met_at) known[trial].met_at = restoring ? met_before(trial) : now;
    if (known[trial].recalling) return;
    if (is_to_be_recalled(trial)) return recall(trial);
    if (recalling > 0 && !known[trial].is_work) {
      kept_for_recalls.push_back(trial);
      return;
    }
    if (canaries.admit(trial)) {
      enter_line(trial);
    } else if (const auto canary = canaries.failed_of(trial)) {
      block(trial, *canary, canary_words(*canary));
    }
  }

  // When the last of its conditions was met while an earlier process watched; now if that is not known.
  [[nodiscard]] Instant met_before(TrialIndex trial) const {
    Instant met{};
    for (const Edge& need : plan.nodes[trial].needs) {
      const Past& past = options.past[need.trial];
      std::optional<Instant> moment = past.over_at;
      if (need.condition == Condition::started && past.ran_at) moment = past.ran_at;
      if (need.condition == Condition::healthy && past.was_healthy) moment.reset();
      met = std::max(met, moment.value_or(now));
    }
    return std::min(met, now);
  }

  void enter_line(TrialIndex trial) {
    move(trial, TrialState::ready);
    known[trial].ready_at = now;
    ready.push(trial, wanted(trial));
  }

  [[nodiscard]] std::string canary_words(TrialIndex canary) const {
    return fmt::format("`{}`, the canary of its shape, failed", name(canary));
  }

  // Of a trial whose last attempt ended for this cause.
  static TrialState state_after(Cause cause) {
    return cause == Cause::stopped ? TrialState::stopped : TrialState::failed;
  }

  void fail(TrialIndex trial, Cause cause, std::optional<int> exit_code, std::string reason,
            std::optional<Instant> at = std::nullopt) {
    fail({.trial = trial,
          .state = state_after(cause),
          .cause = cause,
          .exit_code = exit_code,
          .reason = std::move(reason),
          .at = moment_of(trial, at)});
  }

  void fail(Fact fact) {
    const TrialIndex trial = fact.trial;
    finish(trial, std::move(fact));
    halt_after_failures();
  }

  // A trial is over. What becomes of those around it is put on a list rather than done by recursion: a chain
  // may be long.
  void finish(TrialIndex trial, Fact fact) {
    give_back_slots(trial);
    end_doom(trial);
    leaving.erase(trial);
    service_room.over(trial);
    move(trial, fact.state);
    known[trial].tells_of_shape = fact.state == TrialState::failed && fact.cause != Cause::host_lost;
    fact.ran = known[trial].was_started;
    tell(std::move(fact));
    if (known[trial].is_work) --unfinished_work;
    over.push_back(trial);
    if (!spreading) spread_all();
  }

  void spread_all() {
    spreading = true;
    while (!over.empty()) {
      const TrialIndex next = over.back();
      over.pop_back();
      spread(next);
      if (over.empty() && unfinished_work == 0 && options.until == Until::ended) stop_unused_services();
    }
    spreading = false;
  }

  // What the end of `trial` means to those that depend on it and those that it depended on.
  void spread(TrialIndex trial) {
    const Progress& it = known[trial];
    // "finished" is so however it ended, also when it never ran: what waits for the end of others wants to
    // look at what there is.
    satisfy(trial, Condition::finished);
    if (has_succeeded(it.state)) {
      satisfy(trial, Condition::succeeded);
    } else {
      block_users(trial, Condition::succeeded);
    }
    if (it.state == TrialState::skipped) {
      if (!it.was_started) satisfy(trial, Condition::started);
      if (!it.healthy) satisfy(trial, Condition::healthy);
    } else {
      if (!it.healthy) block_users(trial, Condition::healthy);
      if (!it.was_started) block_users(trial, Condition::started);
    }
    if (has_succeeded(it.state)) recall_users(trial);
    spread_to_shape(trial);
    for (const Edge& need : plan.nodes[trial].needs) {
      --known[need.trial].users;
      stop_when_unused(need.trial);
    }
  }

  // What the end of a canary means to those that waited for it.
  void spread_to_shape(TrialIndex trial) {
    const TrialState state = known[trial].state;
    if (has_succeeded(state)) {
      for (const TrialIndex kept :
           state == TrialState::skipped ? canaries.pass(trial) : canaries.passed(trial))
        if (known[kept].state == TrialState::waiting) enter_line(kept);
    } else if (!known[trial].tells_of_shape) {
      for (const TrialIndex kept : canaries.withdrawn(trial))
        if (known[kept].state == TrialState::waiting) make_ready(kept);
    } else {
      for (const TrialIndex kept : canaries.failed(trial))
        if (known[kept].state == TrialState::waiting) block(kept, trial, canary_words(trial));
    }
  }

  // ---- What has been done before

  // A service has no end, nor has what only has to run for others.
  [[nodiscard]] bool is_to_be_recalled(TrialIndex trial) const {
    const Progress& it = known[trial];
    return options.recalls && experiment.trials[trial].cache.on && it.is_work && !it.is_recalled &&
           !it.recalling && halted.empty();
  }

  // What others leave for it is known when they have succeeded.
  [[nodiscard]] bool are_inputs_known(TrialIndex trial) const {
    return std::ranges::all_of(experiment.trials[trial].inputs, [this](const Input& input) {
      if (input.trial.empty()) return true;
      return has_succeeded(known[by_name.at(input.trial)].state);
    });
  }

  void recall_at_beginning() {
    for (TrialIndex trial = 0; trial < known.size(); ++trial) {
      if (restoring && options.past[trial].anew) known[trial].is_recalled = true;
      const bool is_waiting = !restoring || options.past[trial].state == TrialState::waiting;
      if (is_waiting && is_to_be_recalled(trial) && are_inputs_known(trial)) recall(trial);
    }
  }

  void recall_users(TrialIndex trial) {
    for (const Edge& edge : plan.nodes[trial].needed_by) {
      if (known[edge.trial].state != TrialState::waiting) continue;
      if (is_to_be_recalled(edge.trial) && are_inputs_known(edge.trial)) recall(edge.trial);
    }
  }

  void recall(TrialIndex trial) {
    known[trial].recalling = true;
    ++recalling;
    out->commands.emplace_back(RecallCommand{.trial = trial});
  }

  // Services that nobody needs any more are not started.
  void make_kept_ready() {
    for (const TrialIndex trial : std::exchange(kept_for_recalls, {})) {
      const Progress& it = known[trial];
      if (it.state != TrialState::waiting || it.unmet > 0) continue;
      const bool is_needless =
          experiment.trials[trial].service && it.users == 0 && !plan.nodes[trial].needed_by.empty();
      if (options.until == Until::ended && is_needless) {
        finish_unstarted(trial);
      } else {
        make_ready(trial);
      }
    }
  }

  void satisfy(TrialIndex trial, Condition condition) {
    for (const Edge& edge : plan.nodes[trial].needed_by) {
      if (edge.condition != condition) continue;
      Progress& user = known[edge.trial];
      if (--user.unmet == 0 && user.state == TrialState::waiting) make_ready(edge.trial);
    }
  }

  void block_users(TrialIndex trial, Condition condition) {
    for (const Edge& edge : plan.nodes[trial].needed_by) {
      if (edge.condition == condition && known[edge.trial].state == TrialState::waiting) {
        block_by_need(edge.trial, trial, condition);
      }
    }
  }

  void block_by_need(TrialIndex trial, TrialIndex need, Condition condition) {
    const auto found = roots.find(need);
    block(trial, need,
          found == roots.end()
              ? fmt::format("depends on `{}`, which {}", name(need), unmet_words(condition))
              : fmt::format("depends on `{}`, which is blocked by `{}`", name(need), name(found->second)));
  }

  void block(TrialIndex trial, TrialIndex cause, std::string why) {
    const auto found = roots.find(cause);
    const TrialIndex root = found == roots.end() ? cause : found->second;
    roots.emplace(trial, root);
    finish(trial, {.trial = trial, .state = TrialState::blocked, .reason = std::move(why), .root = root});
  }

  // ---- Services

  void stop_when_unused(TrialIndex trial) {
    // A service that nothing depends on serves all: it stands until the work is done.
    const bool serves_all = plan.nodes[trial].needed_by.empty();
    if (options.until == Until::ended && known[trial].users == 0 && (!serves_all || unfinished_work == 0))
      ask_stop(trial);
  }

  void stop_unused_services() {
    for (const TrialIndex trial : services) {
      if (known[trial].users != 0) continue;
      if (known[trial].state == TrialState::running) ask_stop(trial);
      // One that has not been started has nobody left to serve.
      if (known[trial].state == TrialState::waiting || known[trial].state == TrialState::ready ||
          known[trial].state == TrialState::retrying) {
        finish_unstarted(trial);
      }
    }
  }

  // A service that is not started (again), since its work is done.
  void finish_unstarted(TrialIndex trial) {
    Fact end{.trial = trial, .state = TrialState::stopped};
    if (const Fact* failure = failure_before(trial)) {
      known[trial].attempt = failure->attempt;
      end.cause = failure->cause;
      end.exit_code = failure->exit_code;
      end.reason = failure->reason + "; not tried again: its work was done";
    }
    finish(trial, std::move(end));
  }

  void ask_stop(TrialIndex trial) {
    if (!experiment.trials[trial].service || known[trial].state != TrialState::running ||
        leaving.contains(trial))
      return;
    if (!std::exchange(known[trial].stop_asked, true)) command_stop(trial);
  }

  // ---- Starts

  void answered(TrialIndex trial) {
    if (std::exchange(known[trial].in_flight, false)) --in_flight;
    retry_when_possible(trial);
  }

  // One that wants more after an attempt stands in another line.
  [[nodiscard]] bool is_in(const Line& line, TrialIndex trial) const {
    return known[trial].state == TrialState::ready && wanted(trial) == line.slots;
  }

  // Services for which there is no room yet leave their line, so that they hold up nobody.
  [[nodiscard]] bool is_in_or_held_back(const Line& line, TrialIndex trial, ServiceRoom::Look look) {
    if (!is_in(line, trial)) return false;
    if (!line.service || !holdings.are_counted() ||
        service_room.may_start(trial, holdings.left_in_time(), look))
      return true;
    held_back.insert(ready.place_of(trial));
    if (look == ServiceRoom::Look::now) room_seen_in_turn.reset();
    return false;
  }

  // What there is room for now may be among them when there is more than at the last look.
  void look_again_at_held_back(ServiceRoom::Look look) {
    if (held_back.empty()) return;
    std::optional<Room>& seen = look == ServiceRoom::Look::now ? room_seen : room_seen_in_turn;
    Room room{.left = holdings.left_in_time(), .changes = service_room.changes()};
    if (seen == room) return;
    seen = std::move(room);
    std::size_t left = look == ServiceRoom::Look::now ? k_held_back_looked_at_max : held_back.size();
    for (; left > 0 && !held_back.empty(); --left) {
      const TrialIndex trial = held_back.extract(std::prev(held_back.end())).value().trial;
      ready.push(trial, wanted(trial));
    }
  }

  [[nodiscard]] bool has_room(const Line& line) const {
    return line.service || settings.parallel_max == 0 || alive < settings.parallel_max;
  }

  struct Next {
    Line* line = nullptr;
    std::vector<std::string> gpus;
  };

  // The line whose head starts next, and what it gets; none when none may. Whoever waits for slots is
  // overtaken by those that fit, but only so many times.
  [[nodiscard]] Next next_line() {
    Next found = next_line(ServiceRoom::Look::now);
    return found.line == nullptr && nothing_will_end() ? next_line(ServiceRoom::Look::in_turn) : found;
  }

  [[nodiscard]] bool nothing_will_end() const {
    const std::size_t ending = counts[index(TrialState::running)] - staying;
    return ending + in_flight + stops_in_flight + collecting + recalling +
               counts[index(TrialState::starting)] + counts[index(TrialState::retrying)] ==
           0;
  }

  [[nodiscard]] Next next_line(ServiceRoom::Look look) {
    look_again_at_held_back(look);
    std::vector<Line*> waiting;
    std::vector<std::string> gpus;
    const auto is_kept_back = [&](const Line& line) {
      return std::ranges::any_of(waiting, [&](const Line* first) {
        return first->overtakes == k_overtakes_max && holdings.is_free_in_time(*first) &&
               holdings.holds_up(line, *first);
      });
    };
    // The first that waits is spared: others get what it could do with only where there are no other.
    const auto has_gpus = [&](const Line& line) {
      if (line.gpus.empty() || !holdings.are_counted()) return true;
      const auto chosen = choose_gpus(line, waiting.empty() ? GpuWish{} : waiting.front()->gpus, look);
      gpus = chosen.value_or(std::vector<std::string>());
      return chosen.has_value();
    };
    std::size_t left =
        look == ServiceRoom::Look::now ? k_lines_looked_at_max : std::numeric_limits<std::size_t>::max();
    Line* found =
        ready.first([&](const Line& line, TrialIndex trial) { return is_in_or_held_back(line, trial, look); },
                    [&](Line& line) {
                      if (!has_room(line)) return --left == 0;
                      if (holdings.is_free(line))
                        return (!is_kept_back(line) && has_gpus(line)) || --left == 0;
                      waiting.push_back(&line);
                      return --left == 0;
                    });
    if (left == 0) found = nullptr;
    for (Line* first : waiting) {
      const TrialIndex head = first->places.top().trial;
      if (std::exchange(first->overtaken, std::optional(head)) != head) first->overtakes = 0;
      if (found != nullptr && holdings.holds_up(*found, *first))
        first->overtakes = std::min(first->overtakes + 1, k_overtakes_max);
    }
    return {.line = found, .gpus = std::move(gpus)};
  }

  // What may stay leaves those that others need with it.
  [[nodiscard]] std::optional<std::vector<std::string>> choose_gpus(const Line& line, const GpuWish& spared,
                                                                    ServiceRoom::Look look) const {
    const TrialIndex head = line.places.top().trial;
    if (!may_stay(head)) return holdings.choose_gpus(line.gpus, spared, {});
    const Slots left = holdings.left_in_time();
    const auto suits = [&](const std::vector<std::string>& gpus) {
      if (line.service) return service_room.may_start(head, left, look, gpus);
      Slots others = left;
      others -= {.cpus = {}, .memory = {}, .gpus = gpus};
      return std::ranges::all_of(plan.nodes[head].needed_by, [&](const Edge& user) {
        return schedule::can_match({&*experiment.trials[user.trial].gpus}, options.gpus, others.gpus);
      });
    };
    auto chosen = holdings.choose_gpus(line.gpus, spared, suits);
    return chosen || line.service ? chosen : holdings.choose_gpus(line.gpus, spared, {});
  }

  void start_what_fits() {
    if (interrupted || restored || settings.paused) return;
    while (in_flight < settings.starts_in_flight_max) {
      Next next = next_line();
      if (next.line == nullptr) return;
      const TrialIndex trial = ready.pop(*next.line);
      Slots slots = wanted(trial);
      slots.gpus = std::move(next.gpus);
      move(trial, TrialState::starting);
      for (const TrialIndex kept : canaries.started(trial))
        if (known[kept].state == TrialState::ready) move(kept, TrialState::waiting);
      known[trial].in_flight = true;
      ++in_flight;
      take_slots(trial, slots);
      tell({.trial = trial,
            .state = TrialState::starting,
            .slots = slots,
            .ready_at = known[trial].met_at.value_or(known[trial].ready_at)});
      out->commands.emplace_back(
          StartCommand{.trial = trial, .attempt = known[trial].attempt, .slots = std::move(slots)});
      const Seconds limit = experiment.trials[trial].start_deadline;
      if (limit > Seconds(0)) set_timer(schedule::Timer::Kind::start_deadline, trial, limit);
    }
  }

  void take_slots(TrialIndex trial, const Slots& slots) {
    holdings.take(trial, slots, may_stay(trial));
    if (!experiment.trials[trial].service) ++alive;
    if (experiment.trials[trial].service) service_room.started(trial, slots);
  }

  // Nobody waits for its end.
  [[nodiscard]] bool may_stay(TrialIndex trial) const { return !known[trial].is_work; }

  void give_back_slots(TrialIndex trial) {
    const TrialState state = known[trial].state;
    if (!is_alive(state)) return;
    holdings.give_back(trial);
    if (!experiment.trials[trial].service) --alive;
    service_room.ended(trial);
  }

  void move(TrialIndex trial, TrialState state) {
    count(trial, -1);
    known[trial].state = state;
    count(trial, 1);
  }

  void count(TrialIndex trial, std::ptrdiff_t by) {
    const TrialState state = known[trial].state;
    counts[index(state)] += static_cast<std::size_t>(by);
    const Trial& it = experiment.trials[trial];
    if (state != TrialState::running) return;
    if (may_stay(trial)) staying += static_cast<std::size_t>(by);
    if (it.retries.max > 0) retriable += static_cast<std::size_t>(by);
    // A service that ends is tried again as long as there is something else to stay for.
    const bool has_limit = it.timeout > Seconds(0) || experiment.deadline > Seconds(0);
    if (it.service ? has_limit : is_watched(experiment, it)) watched += static_cast<std::size_t>(by);
  }

  void tell(Fact fact) {
    fact.attempt = known[fact.trial].attempt;
    if (fact.at == Instant{}) fact.at = now;
    // That it is being stopped may be wrong: it may have ended already.
    if (!tells_of_stop(fact)) known[fact.trial].told_at = fact.at;
    out->facts.push_back(std::move(fact));
  }

  // When it was by the engine's clock, which may be another.
  [[nodiscard]] Instant moment_of(TrialIndex trial, std::optional<Instant> told) const {
    return told ? std::clamp(*told, std::min(known[trial].told_at, now), now) : now;
  }

  [[nodiscard]] std::size_t to_start() const {
    return counts[index(TrialState::waiting)] + counts[index(TrialState::ready)] +
           counts[index(TrialState::starting)] + counts[index(TrialState::retrying)];
  }

  [[nodiscard]] bool done() const {
    if (in_flight > 0) return false;
    if (interrupted) return true;
    if (restored ||
        to_start() + collecting + counts[index(TrialState::collecting)] + stops_in_flight + doomed + watched >
            0)
      return false;
    return options.until == Until::started || (unfinished_work == 0 && !any_service_to_stop());
  }

  // What serves only those that are left to run is left with them.
  [[nodiscard]] bool any_service_to_stop() const {
    return std::ranges::any_of(services, [this](TrialIndex trial) {
      const Progress& it = known[trial];
      return it.state == TrialState::running && it.users == 0;
    });
  }

  RunId run;
  const Experiment& experiment;
  const Plan& plan;
  PlannerOptions options;
  Settings settings;

  std::vector<Progress> known;
  std::unordered_map<std::string_view, TrialIndex> by_name;
  std::unordered_map<TrialIndex, TrialIndex> roots;  // of blocked trials
  schedule::ReadyLines ready;
  schedule::Canaries canaries;
  schedule::Timers timers;
  Instant now{};
  std::array<std::size_t, k_trial_state_count> counts{};
  std::size_t in_flight = 0;
  schedule::Holdings holdings;
  ServiceRoom service_room;
  // Ready services that there was no room for, the first one last, and what there was at the last look.
  std::set<schedule::ReadyLines::Place> held_back;
  struct Room {
    Slots left;
    std::size_t changes = 0;
    bool operator==(const Room&) const = default;
  };
  std::optional<Room> room_seen;
  std::optional<Room> room_seen_in_turn;
  std::size_t alive = 0;                                 // attempts that are no services
  std::size_t staying = 0;                               // running trials whose end nobody waits for
  std::unordered_map<TrialIndex, Leaving> leaving;       // whose attempts are stopped for the edited file
  std::unordered_map<TrialIndex, std::string> stoppers;  // of attempts that somebody has asked to end
  std::unordered_map<TrialIndex, Ended> endings;         // of those whose outputs are taken home
  std::string undelivered;                               // why that failed last
  std::unordered_map<TrialIndex, Fact> last_failures;    // of those that are tried again
  std::vector<TrialIndex> again;     // that have entered the line for a further attempt in this step
  std::vector<TrialIndex> awaiting;  // of whom it is not known yet who stopped them
  std::vector<TrialIndex> services;
  std::size_t unfinished_work = 0;  // trials that are waited for and not over
  std::uint64_t listings = 0;
  Instant deadline_at{};  // where there is one

  std::size_t watched = 0;     // running trials that somebody must stay for
  std::size_t retriable = 0;   // running trials that may be tried again
  std::size_t doomed = 0;      // attempts that are being stopped because nobody has time for them
  std::size_t collecting = 0;  // attempts of which something is being taken
  std::size_t recalling = 0;   // trials that are being looked for among what has been done
  std::vector<TrialIndex> kept_for_recalls;  // services that are ready but for that
  std::size_t stops_in_flight = 0;           // commanded and not answered
  bool interrupted = false;
  bool is_last = false;            // nobody will try anything again
  bool restoring = false;          // step() is about that
  bool restored = false;           // from an earlier process's record, and not listed since
  std::vector<TrialIndex> unsure;  // that it began to start
  std::string halted;              // why nothing starts any more; empty: it does
  bool spreading = false;
  std::vector<TrialIndex> over;  // whose end has not been spread yet
  Step* out = nullptr;           // while step() runs
};

Planner::Planner(RunId run, const Experiment& experiment, const Plan& plan, PlannerOptions options)
    : impl_(std::make_unique<Impl>(std::move(run), experiment, plan, std::move(options))) {}
Planner::~Planner() = default;

Step Planner::step(const Event& event, Instant now) {
  Step step;
  impl_->out = &step;
  impl_->now = now;
  std::visit([this](const auto& one) { impl_->on(one); }, event);
  // What has ended in time while nobody watched is seen to before.
  if (!impl_->restored) impl_->fire_timers();
  impl_->start_what_fits();
  impl_->tell_again();
  impl_->out = nullptr;
  if (!impl_->restored) step.wake = impl_->timers.next();
  return step;
}

bool Planner::done() const {
  return impl_->done();
}
bool Planner::may_start_more() const {
  const bool any_replaced =
      std::ranges::any_of(impl_->leaving, [](const auto& one) { return one.second == Leaving::replaced; });
  return impl_->in_flight > 0 ||
         (!impl_->interrupted && (any_replaced || impl_->to_start() + impl_->retriable > 0));
}
TrialState Planner::state(TrialIndex trial) const {
  return impl_->known[trial].state;
}
const std::array<std::size_t, k_trial_state_count>& Planner::counts() const {
  return impl_->counts;
}
std::size_t Planner::starts_in_flight() const {
  return impl_->in_flight;
}
std::size_t Planner::unfinished() const {
  return impl_->unfinished_work;
}
bool Planner::is_waited_for(TrialIndex trial) const {
  return impl_->known[trial].is_work;
}
const std::string& Planner::undelivered() const {
  return impl_->undelivered;
}
const Slots& Planner::held() const {
  return impl_->holdings.held();
}
const Slots& Planner::held_by_others() const {
  return impl_->holdings.held_by_others();
}

const Settings& Planner::settings() const {
  return impl_->settings;
}

void Settings::take(const Adjust& adjust) {
  parallel_max = adjust.parallel_max.value_or(parallel_max);
  starts_in_flight_max = adjust.starts_in_flight_max.value_or(starts_in_flight_max);
  paused = adjust.paused.value_or(paused);
}

bool is_watched(const Experiment& experiment, const Trial& trial) {
  return !trial.outputs.empty() || trial.retries.max > 0 || trial.timeout > Seconds(0) ||
         experiment.deadline > Seconds(0);
}

}  // namespace combu
