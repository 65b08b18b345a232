// The planner: changes of settings during a run.
#include <gtest/gtest.h>

#include <utility>

#include "schedule_planned.hpp"

namespace combu::test {
namespace {

TEST(Planner, APausedRunStartsNothingAndRunningTrialsGoOn) {
  Planned it("a b<-a c<-b:succeeded", k_wait);
  (void)it.begin();
  EXPECT_EQ(it.pause(), " | ");
  EXPECT_EQ(it.started("a"), " | a running");
  EXPECT_EQ(it.state("b"), TrialState::ready);
  EXPECT_EQ(it.ended("a", 0), " | a succeeded");
  EXPECT_TRUE(it.settings().paused);
  EXPECT_EQ(it.resume(), "start b | b starting");
  EXPECT_FALSE(it.settings().paused);
}

TEST(Planner, APausedRunIsNotDoneWhileTrialsWait) {
  Planned it("a b<-a");
  (void)it.begin();
  (void)it.pause();
  (void)it.started("a");
  (void)it.ended("a", 0);
  EXPECT_FALSE(it.done());
  EXPECT_TRUE(it.may_start_more());
  (void)it.resume();
  (void)it.started("b");
  EXPECT_TRUE(it.done());
}

TEST(Planner, ARunCanBePausedBeforeItBegins) {
  Planned it("a b");
  EXPECT_EQ(it.pause(), " | ");
  EXPECT_EQ(it.begin(), " | ");
  EXPECT_EQ(it.resume(), "start a, start b | a starting, b starting");
}

TEST(Planner, APausedAndInterruptedRunIsDone) {
  Planned it("a b");
  (void)it.pause();
  (void)it.begin();
  (void)it.interrupt();
  EXPECT_TRUE(it.done());
}

TEST(Planner, ARetryWaitsWhileTheRunIsPaused) {
  Planned it(with_retries("a", {.max = 1}), k_wait);
  (void)it.begin();
  (void)it.started("a");
  (void)it.pause();
  (void)it.ended("a", 3);
  (void)it.collected("a");
  EXPECT_EQ(it.pass(3600), " | a ready");
  EXPECT_EQ(it.state("a"), TrialState::ready);
  EXPECT_EQ(it.resume(), "start a#2 | a starting");
}

TEST(Planner, TheDeadlinePassesWhileTheRunIsPaused) {
  Experiment experiment = test::experiment("a b<-a:succeeded");
  experiment.deadline = Seconds(60);
  Planned it(std::move(experiment), k_wait);
  (void)it.begin();
  (void)it.started("a");
  (void)it.pause();
  EXPECT_EQ(it.pass(60),
            "stop a | b blocked (not started: the run's deadline of 1m00s has passed), a running (stopped)");
}

TEST(Planner, ParallelMaxCanBeRaisedLoweredAndLifted) {
  Experiment experiment = test::experiment("a b c d e f");
  experiment.parallel_max = 2;
  Planned it(std::move(experiment), k_wait);
  EXPECT_EQ(it.begin(), "start a, start b | a starting, b starting");
  EXPECT_EQ(it.adjust({.parallel_max = 3}), "start c | c starting");
  (void)it.started("a");
  (void)it.started("b");
  (void)it.started("c");
  // Attempts above a lowered limit keep running.
  EXPECT_EQ(it.adjust({.parallel_max = 1}), " | ");
  EXPECT_EQ(it.ended("a", 0), " | a succeeded");
  EXPECT_EQ(it.ended("b", 0), " | b succeeded");
  EXPECT_EQ(it.ended("c", 0), "start d | c succeeded, d starting");
  EXPECT_EQ(it.adjust({.parallel_max = 0}), "start e, start f | e starting, f starting");
}

TEST(Planner, StartsInFlightMaxCanBeRaisedAndLowered) {
  Planned it("a b c d", {.starts_in_flight_max = 1});
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_EQ(it.adjust({.starts_in_flight_max = 3}), "start b, start c | b starting, c starting");
  EXPECT_EQ(it.adjust({.starts_in_flight_max = 1}), " | ");
  EXPECT_EQ(it.started("a"), " | a running");
  EXPECT_EQ(it.started("b"), " | b running");
  EXPECT_EQ(it.started("c"), "start d | c running, d starting");
}

TEST(Planner, OmittedSettingsDoNotChange) {
  Planned it("a", {.starts_in_flight_max = 5});
  (void)it.adjust({.parallel_max = 7});
  (void)it.pause();
  (void)it.adjust({});
  EXPECT_EQ(it.settings().parallel_max, 7U);
  EXPECT_EQ(it.settings().starts_in_flight_max, 5U);
  EXPECT_TRUE(it.settings().paused);
}

}  // namespace
}  // namespace combu::test
