#pragma once
// A Lifecycle whose transitions tests call one by one, without events of the planner.

#include <initializer_list>
#include <string>
#include <utility>

#include "schedule/lifecycle.hpp"
#include "schedule_planned.hpp"

namespace combu::schedule {

struct Driven {
  explicit Driven(Experiment of, PlannerOptions options = {})
      : experiment(std::move(of)), life(experiment, plan, std::move(options)) {
    life.trials.begin_step(test::at(0));
  }
  explicit Driven(const std::string& text, PlannerOptions options = {})
      : Driven(test::experiment(text), std::move(options)) {}

  // Returns the commands and facts since the last call: "start a | a starting".
  std::string news() {
    return test::step_text(
        experiment,
        {.commands = std::exchange(life.commands, {}), .facts = life.trials.take_facts(), .wake = {}});
  }
  std::string start(const Settings& settings = {}) {
    life.start_ready_trials(settings);
    return news();
  }
  // Runs trials that wait or are ready.
  void run(std::initializer_list<TrialIndex> trials) {
    for (const TrialIndex trial : trials) {
      if (state(trial) == TrialState::waiting) life.make_ready(trial);
      life.start_ready_trials({});
      life.answer_start(trial);
      life.begin_to_run(trial);
    }
    (void)news();
  }
  std::string end(TrialIndex trial, int exit_code) {
    if (exit_code == 0) {
      life.settle(trial, {.as = TrialState::succeeded, .exit_code = 0, .reason = {}});
    } else {
      life.fail_attempt(trial, {.cause = Cause::error, .exit_code = exit_code, .reason = {}});
    }
    return news();
  }
  // Ends the attempt by a signal, which an engine may have sent during its shutdown.
  std::string end_by_signal(TrialIndex trial) {
    life.fail_attempt(trial, {.cause = Cause::stopped, .exit_code = 143, .reason = {}});
    return news();
  }
  // Ends the pause before the trial's next attempt.
  void become_due(TrialIndex trial) {
    life.attempts[trial].is_due = true;
    life.retry_when_possible(trial);
  }
  [[nodiscard]] TrialState state(TrialIndex trial) const { return life.trials.state(trial); }
  [[nodiscard]] Explanation::Kind obstacle(TrialIndex trial) const { return life.explain(trial, {}).kind; }

  Experiment experiment;
  Plan plan = test::plan(experiment);
  Lifecycle life;
};

inline Experiment with_outputs(const std::string& text) {
  Experiment experiment = test::experiment(text);
  for (Trial& trial : experiment.trials) trial.outputs = {{.path = "/out", .size_max = {}}};
  return experiment;
}

}  // namespace combu::schedule
