#pragma once
// A planner whose steps are text, and experiments for its tests.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "combu/schedule.hpp"
#include "experiments.hpp"

namespace combu::test {

inline std::string_view word_of(const Command& command) {
  if (std::holds_alternative<StartCommand>(command)) return "start";
  if (std::holds_alternative<StopCommand>(command)) return "stop";
  if (std::holds_alternative<GiveUpCommand>(command)) return "give up";
  if (std::holds_alternative<InspectCommand>(command)) return "look at";
  if (std::holds_alternative<CacheLookupCommand>(command)) return "recall";
  return std::get<CollectCommand>(command).outputs ? "take" : "collect";
}

// Returns the commands and facts of a step. "start a | a starting" is one command and one fact.
inline std::string step_text(const Experiment& experiment, const Step& step) {
  std::string commands;
  for (const Command& command : step.commands) {
    if (!commands.empty()) commands += ", ";
    commands += word_of(command);
    commands += std::visit(
        [&](const auto& one) {
          std::string shown = " " + experiment.trials[one.trial].name;
          if constexpr (requires { one.attempt; })
            if (one.attempt != 1) shown += fmt::format("#{}", one.attempt);
          return shown;
        },
        command);
  }
  std::string facts;
  for (const Fact& fact : step.facts) {
    if (!facts.empty()) facts += ", ";
    facts += fmt::format("{} {}", experiment.trials[fact.trial].name,
                         fact.healthy ? "healthy" : to_string(fact.state));
    if (reports_stop(fact)) facts += fmt::format(" ({})", to_string(fact.cause));
    if (const std::string reason = reason_text(fact); !reason.empty()) facts += fmt::format(" ({})", reason);
  }
  return commands + " | " + facts;
}

// A planner whose functions return each step as text.
class Planned {
 public:
  explicit Planned(const std::string& text, PlannerOptions options = {})
      : Planned(test::experiment(text), options) {}
  explicit Planned(Experiment experiment, PlannerOptions options = {})
      : experiment_(std::move(experiment)),
        plan_(test::plan(experiment_)),
        planner_(run_, experiment_, plan_, options) {
    if (options.capacity) (void)step(Listed{});  // no other run holds slots
  }

  std::string begin() { return text(step(Begin{})); }
  // Begins the run; the engine answers that these trials run.
  void begin_running(const std::vector<std::string>& names) {
    (void)begin();
    for (const std::string& name : names) (void)started(name);
  }
  // `done`: the text of the cache hit; empty: a cache miss.
  std::string looked_up(const std::string& name, const std::string& done = "") {
    return text(step(CacheLookupAnswered{.trial = index(name), .done = done}));
  }
  std::string collected(const std::string& name) { return text(step(Collected{index(name)})); }
  // Collecting fails by a fault of the attempt (not_left) or for another reason (not_taken).
  std::string not_left(const std::string& name) {
    return text(step(Collected{.trial = index(name), .fault = "/out: nothing there", .by_attempt = true}));
  }
  // The attempt's host has failed before the outputs were collected.
  std::string lost_with_outputs(const std::string& name) {
    return text(step(Collected{.trial = index(name), .fault = "its node is gone", .is_lost = true}));
  }
  std::string not_taken(const std::string& name) {
    return text(step(Collected{.trial = index(name), .fault = "disk full"}));
  }
  std::string stopped(const std::string& name, std::optional<int> attempt = std::nullopt) {
    const TrialIndex trial = index(name);
    return text(step(StopAnswered{.trial = trial, .attempt = attempt.value_or(attempt_of(trial))}));
  }
  // Advances the clock, and sends a Tick at each time at which the planner wants to be woken. Returns the
  // first step that is not empty.
  std::string pass(double seconds) {
    const Instant end = now_ + std::chrono::duration_cast<Instant::duration>(Seconds(seconds));
    while (wake_ && *wake_ <= end) {
      now_ = std::max(now_, *wake_);
      Step step = this->step(Tick{});
      if (!step.commands.empty() || !step.facts.empty()) {
        now_ = end;
        return text(step);
      }
    }
    now_ = end;
    return " | ";
  }
  std::string listing_begins_after_a_break() { return text(step(ListingBegins{.after_break = true})); }
  std::string listed_after_a_break(const std::vector<Observation>& observations) {
    return text(step(Listed{.observations = observations, .after_break = true}));
  }
  std::string out_of_memory(const std::string& name) {
    Observation it = observation(name, Phase::ended);
    it.exit_code = 137;
    it.oom = true;
    return seen(it);
  }
  std::string interrupt(bool for_good = false) { return text(step(Interrupt{.for_good = for_good})); }
  std::string adjust(const Adjust& adjust) { return text(step(adjust)); }
  std::string pause() { return adjust({.paused = true}); }
  std::string resume() { return adjust({.paused = false}); }
  [[nodiscard]] const Settings& settings() const { return planner_.settings(); }
  std::string listing_begins() { return text(step(ListingBegins{})); }
  std::string started(const std::string& name) {
    return text(
        step(StartAnswered{.trial = index(name), .result = Running{observation(name, Phase::running)}}));
  }
  std::string lost_to(const std::string& name, const Observation& winner) {
    return text(step(StartAnswered{.trial = index(name), .result = TakenByOther{winner}}));
  }
  std::string answered(const std::string& name, const Observation& seen) {
    return text(step(StartAnswered{.trial = index(name), .result = Running{seen}}));
  }
  // The engine has created the container, but the attempt does not run yet.
  std::string accepted(const std::string& name) {
    return text(
        step(StartAnswered{.trial = index(name), .result = Running{observation(name, Phase::created)}}));
  }
  std::string found(const std::vector<Observation>& observations) {
    return text(step(AttemptsFound{observations}));
  }
  // The engine has accepted the start, and places the attempt later.
  std::string queued(const std::string& name) {
    return text(step(StartAnswered{.trial = index(name), .result = Accepted{}}));
  }
  std::string without_room(const std::string& name, Seconds retry_after) {
    return text(step(
        StartAnswered{.trial = index(name), .result = NoRoom{.reason = {}, .retry_after = retry_after}}));
  }
  std::string not_started(const std::string& name) {
    return text(
        step(StartFailed{.trial = index(name), .error = Error(ErrorKind::refused, name, "port is taken")}));
  }
  std::string start_given_up(const std::string& name) {
    return text(
        step(StartFailed{.trial = index(name), .error = Error(ErrorKind::cancelled, name, "cancelled")}));
  }
  std::string not_stopped(const std::string& name, std::optional<int> attempt = std::nullopt) {
    const TrialIndex trial = index(name);
    return text(step(StopFailed{.trial = trial,
                                .error = Error(ErrorKind::refused, name, "no"),
                                .attempt = attempt.value_or(attempt_of(trial))}));
  }
  std::string running(const std::string& name) { return seen(observation(name, Phase::running)); }
  std::string ended(const std::string& name, int code) {
    Observation it = observation(name, Phase::ended);
    it.exit_code = code;
    return seen(it);
  }
  void end_and_collect(const std::string& name, int code) {
    (void)ended(name, code);
    (void)collected(name);
  }
  std::string gone(const std::string& name) { return seen(observation(name, Phase::gone)); }
  std::string health(const std::string& name, Health health) {
    Observation it = observation(name, Phase::running);
    it.health = health;
    return seen(it);
  }
  std::string seen(const Observation& it) { return text(step(Observed{it})); }
  std::string looked(const Observation& it) { return text(step(Inspected{it})); }
  std::string listed(const std::vector<Observation>& observations) {
    return text(step(Listed{observations}));
  }

  // Returns an observation of the trial's current attempt, or of the given attempt.
  [[nodiscard]] Observation observation(const std::string& name, Phase phase,
                                        std::optional<int> attempt = std::nullopt) const {
    Observation it{.key = {.run = run_, .trial = name, .attempt = attempt.value_or(attempt_of(index(name)))},
                   .experiment = "test",
                   .phase = phase};
    if (phase == Phase::ended) it.ended_at = now_;
    return it;
  }
  // Returns an observation of an attempt that a signal ended. Neither the planner nor the kernel sent the
  // signal.
  [[nodiscard]] Observation stopped_from_outside(const std::string& name) const {
    Observation it = observation(name, Phase::ended);
    it.exit_code = 143;
    it.stopped = true;
    return it;
  }
  // Sends an observation of another run's attempt on the same engine, which holds two CPUs.
  std::string other(const std::string& id, Phase phase) {
    return seen({.key = {.run = RunId("run2"), .trial = "a"},
                 .experiment = "other",
                 .id = id,
                 .phase = phase,
                 .slots = cpus("2")});
  }
  static Slots cpus(const char* text) { return {.cpus = parse_cpus(text)}; }
  [[nodiscard]] const Slots& held() const { return planner_.held(); }
  [[nodiscard]] TrialState state(const std::string& name) const { return planner_.state(index(name)); }
  [[nodiscard]] bool done() const { return planner_.done(); }
  [[nodiscard]] std::string undelivered() const { return planner_.undelivered(); }
  [[nodiscard]] bool may_start_more() const { return planner_.may_start_more(); }
  [[nodiscard]] std::size_t in_flight() const { return planner_.starts_in_flight(); }
  [[nodiscard]] Instant now() const { return now_; }
  // Return the last fact of a trial, and the last CollectCommand for the trial.
  [[nodiscard]] const Fact& fact(const std::string& name) const { return facts_.at(index(name)); }
  [[nodiscard]] const CollectCommand& collect(const std::string& name) const {
    return collects_.at(index(name));
  }

 private:
  [[nodiscard]] int attempt_of(TrialIndex trial) const {
    const auto found = attempts_.find(trial);
    return found == attempts_.end() ? 1 : found->second;
  }
  [[nodiscard]] TrialIndex index(const std::string& name) const {
    for (TrialIndex i = 0; i < experiment_.trials.size(); ++i) {
      if (experiment_.trials[i].name == name) return i;
    }
    ADD_FAILURE() << "no trial " << name;
    return 0;
  }

  Step step(const Event& event) {
    Step step = planner_.step(event, now_);
    wake_ = step.wake;
    for (const Command& command : step.commands) {
      if (const auto* start = std::get_if<StartCommand>(&command)) attempts_[start->trial] = start->attempt;
      if (const auto* collect = std::get_if<CollectCommand>(&command))
        collects_.insert_or_assign(collect->trial, *collect);
    }
    for (const Fact& fact : step.facts) facts_.insert_or_assign(fact.trial, fact);
    return step;
  }

  [[nodiscard]] std::string text(const Step& step) const { return step_text(experiment_, step); }

  RunId run_{"run1"};
  Experiment experiment_;
  Plan plan_;
  Planner planner_;
  Instant now_{};
  std::optional<Instant> wake_;
  std::map<TrialIndex, int> attempts_;
  std::map<TrialIndex, Fact> facts_;
  std::map<TrialIndex, CollectCommand> collects_;
};

inline Instant at(double seconds) {
  return Instant{} + std::chrono::duration_cast<Instant::duration>(Seconds(seconds));
}

inline constexpr PlannerOptions k_wait{.until = Until::ended};

// "0" and "1" are small, "2" is large.
inline std::vector<Gpu> three_gpus() {
  constexpr std::int64_t k_gibibyte = std::int64_t{1} << 30U;
  return {{.id = "0", .uuid = "GPU-a", .kind = "NVIDIA T4", .memory = Bytes{16 * k_gibibyte}},
          {.id = "1", .uuid = "GPU-b", .kind = "NVIDIA T4", .memory = Bytes{16 * k_gibibyte}},
          {.id = "2", .uuid = "GPU-c", .kind = "NVIDIA H100 80GB", .memory = Bytes{80 * k_gibibyte}}};
}

inline PlannerOptions with_gpus() {
  Slots capacity{.cpus = parse_cpus("8"), .memory = {}, .gpus = {"0", "1", "2"}};
  return {.starts_in_flight_max = 100, .capacity = std::move(capacity), .gpus = three_gpus()};
}

inline Experiment with_retries(const std::string& text, Retries retries) {
  Experiment experiment = test::experiment(text);
  if (retries.on.none()) retries.on.set().reset(static_cast<std::size_t>(Cause::stopped));
  for (Trial& trial : experiment.trials) trial.retries = retries;
  return experiment;
}

// Sets the timeout of the first trial.
inline Experiment with_timeout(Experiment experiment, Seconds timeout) {
  experiment.trials.at(0).timeout = timeout;
  return experiment;
}

inline Experiment with_start_deadline(Experiment experiment, Seconds start_deadline) {
  experiment.trials.at(0).start_deadline = start_deadline;
  return experiment;
}

inline Experiment with_canary(const std::string& text) {
  Experiment experiment = test::experiment(text);
  experiment.canary = true;
  for (Trial& trial : experiment.trials) trial.process.cmd = {"solve", "--id=" + trial.name};
  return experiment;
}

// Returns an experiment whose trials have the given GPU wishes by name.
inline Experiment with_wishes(const std::string& text, const std::map<std::string, GpuRequest>& wishes) {
  Experiment experiment = test::experiment(text);
  for (Trial& trial : experiment.trials)
    if (const auto wish = wishes.find(trial.name); wish != wishes.end()) trial.gpus = wish->second;
  return experiment;
}

// Returns an experiment whose trials have the given CPUs by name.
inline Experiment with_cpus(const std::string& text, const std::map<std::string, std::string>& cpus) {
  Experiment experiment = test::experiment(text);
  for (Trial& trial : experiment.trials)
    if (const auto wanted = cpus.find(trial.name); wanted != cpus.end())
      trial.slots.cpus = parse_cpus(wanted->second);
  return experiment;
}

inline PlannerOptions with_cpus(const char* cpus) {
  return {.starts_in_flight_max = 100, .capacity = Slots{.cpus = parse_cpus(cpus)}};
}

// Returns an experiment with one trial for each count; the count is its number of GPUs.
inline Experiment wanting(const std::vector<std::size_t>& counts) {
  Experiment experiment;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    Trial trial;
    trial.name = std::string(1, static_cast<char>('a' + i));
    trial.gpus = GpuRequest{.count = counts[i]};
    experiment.trials.push_back(std::move(trial));
  }
  return experiment;
}

inline Observation holder_of(const std::string& id, std::vector<std::string> gpus, Phase phase) {
  return {.key = {.run = RunId("run2"), .trial = "x"},
          .experiment = "other",
          .id = id,
          .phase = phase,
          .slots = {.cpus = {}, .memory = {}, .gpus = std::move(gpus)}};
}

}  // namespace combu::test
