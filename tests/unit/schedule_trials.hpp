#pragma once
// A trial table for the tests of the planner's parts.

#include <chrono>
#include <string>
#include <utility>

#include "experiments.hpp"
#include "schedule/trial_table.hpp"

namespace combu::schedule {

inline constexpr Instant k_step_at{std::chrono::seconds(1'800'000'000)};

// An experiment, its plan, and the table of its trials.
struct Trials {
  explicit Trials(const std::string& text) : Trials(test::experiment(text)) {}
  explicit Trials(Experiment of) : experiment(std::move(of)) { table.begin_step(k_step_at); }
  void report(TrialIndex trial, TrialState state) { table.report({.trial = trial, .state = state}); }

  Experiment experiment;
  Plan plan = test::plan(experiment);
  TrialTable table{experiment, plan, {}};
};

}  // namespace combu::schedule
