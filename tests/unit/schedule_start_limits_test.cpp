// The planner: limits of the engine for the attempts of some trials (StartLimit).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "schedule_planned.hpp"
#include "unit/schedule_trials.hpp"

namespace combu::test {
namespace {

// At most one attempt of `a`, `b` and `c`, and at most two of `d`, `e` and `f`. Other trials have no limit.
PlannerOptions with_limits(PlannerOptions options = {}) {
  options.limits = {{.attempts_max = 1, .trials = {0, 1, 2}}, {.attempts_max = 2, .trials = {3, 4, 5}}};
  return options;
}

TEST(StartLimit, AtMostThisManyAttemptsStartAtOnce) {
  Planned it("a b c d e f g", with_limits());
  EXPECT_EQ(it.begin(),
            "start a, start d, start e, start g | a starting, d starting, e starting, g starting");
  EXPECT_EQ(it.started("a"), " | a running");
  EXPECT_EQ(it.started("d"), " | d running");
  EXPECT_EQ(it.ended("g", 0), " | g running, g succeeded") << "a trial without a limit frees no place";
}

TEST(StartLimit, AnEndFreesAPlace) {
  Planned it("a b c d e f g", with_limits());
  it.begin_running({"a", "d", "e"});
  EXPECT_EQ(it.ended("e", 0), "start f | e succeeded, f starting");
  EXPECT_EQ(it.ended("a", 1), "collect a, start b | a failed (exit code 1), b starting");
  EXPECT_EQ(it.not_started("b"), "start c | b failed (could not be started: port is taken), c starting");
}

TEST(StartLimit, LowerPrioritiesWithoutALimitDoNotWait) {
  Experiment experiment = test::experiment("a b c d e f g");
  for (TrialIndex trial = 0; trial < 6; ++trial) experiment.trials[trial].priority = 5;
  Planned it(std::move(experiment), with_limits());
  EXPECT_EQ(it.begin(),
            "start a, start d, start e, start g | a starting, d starting, e starting, g starting");
}

TEST(StartLimit, AttemptsOfAnEarlierProcessCount) {
  const RestoredTrial runs{.state = TrialState::running, .was_started = true};
  Planned it("a b c d e f g", with_limits({.restored = {{}, runs, {}, {}, {}, {}, {}}}));
  EXPECT_EQ(it.begin(), " | ");
  EXPECT_EQ(it.listed({it.observation("b", Phase::running)}),
            "start d, start e, start g | d starting, e starting, g starting");
  EXPECT_EQ(it.ended("b", 0), "start a | b succeeded, a starting");
}

TEST(StartLimit, ARetryNeedsAPlace) {
  Experiment experiment = test::experiment("a b c d e f g");
  experiment.trials[0].retries = {.max = 1, .on = std::bitset<k_cause_count>().set(), .pause = Seconds(0)};
  Planned it(std::move(experiment), with_limits());
  it.begin_running({"a"});
  (void)it.ended("a", 1);
  (void)it.pass(1);
  EXPECT_TRUE(it.state("a") == TrialState::starting || it.state("b") == TrialState::starting);
  EXPECT_FALSE(it.state("a") == TrialState::starting && it.state("b") == TrialState::starting);
}

TEST(TrialTable, CountsTheAttemptsOfALimit) {
  const Experiment experiment = test::experiment("a b c");
  const Plan plan = test::plan(experiment);
  schedule::TrialTable table(experiment, plan, {{.attempts_max = 1, .trials = {0, 2}}});
  EXPECT_EQ(table.limit_of(0), 0U);
  EXPECT_EQ(table.limit_of(2), 0U);
  EXPECT_EQ(table.limit_of(1), schedule::TrialTable::k_unlimited);
  EXPECT_TRUE(table.has_place_in(0));
  EXPECT_TRUE(table.has_place_in(schedule::TrialTable::k_unlimited));
  table.begin_step(schedule::k_step_at);
  table.report({.trial = 2, .state = TrialState::starting});
  table.report({.trial = 1, .state = TrialState::starting});
  EXPECT_FALSE(table.has_place_in(0));
  table.report({.trial = 2, .state = TrialState::running});
  EXPECT_FALSE(table.has_place_in(0));
  table.report({.trial = 2, .state = TrialState::collecting});
  EXPECT_TRUE(table.has_place_in(0));
  table.restore(0, {.state = TrialState::running, .was_started = true});
  EXPECT_FALSE(table.has_place_in(0));
}

}  // namespace
}  // namespace combu::test
