// The transitions of the trials, without the planner's events: stops, the end of all starts, services, kill.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedule_driven.hpp"

namespace combu::schedule {
namespace {

using test::at;

// ---- Stops

TEST(Stops, AStopIsReportedWithItsCauseAndCommandedOnce) {
  Driven it(test::with_timeout(test::experiment("a"), Seconds(9)));
  it.run({0});
  EXPECT_EQ(it.life.timers.next(), at(9));
  it.life.stop(0, Cause::timeout);
  EXPECT_EQ(it.news(), "stop a | a running (timeout)");
  it.life.stop(0, Cause::stopped);
  EXPECT_EQ(it.news(), " | ") << "the first cause stays";
  EXPECT_EQ(it.life.attempts.stops_in_flight(), 1U);
  EXPECT_EQ(it.end(0, 137), "collect a | a failed (took longer than its timeout of 9.0 s)");
  EXPECT_EQ(it.life.attempts.stopping(), 0U);
}

TEST(Stops, AStartInFlightIsStoppedAfterItsAnswer) {
  Driven it("a b");
  for (const TrialIndex trial : {0, 1}) it.life.make_ready(trial);
  (void)it.start();
  it.life.stop(0, Cause::stopped);
  EXPECT_EQ(it.life.timers.next(), std::nullopt);
  it.life.stop(1, Cause::start_deadline);
  EXPECT_EQ(it.news(), " | a starting (stopped), b starting (start_deadline)");
  EXPECT_EQ(it.life.timers.next(), at(15)) << "after this time the start is given up";
  it.life.answer_start(1);
  it.life.send_stop(1);
  EXPECT_EQ(it.news(), "stop b | ");
}

TEST(Stops, NothingStartsAfterFailuresMax) {
  Experiment experiment = test::with_retries("a b c d<-c", {.max = 1, .on = {}});
  experiment.trials[1].retries.max = 0;
  experiment.failures_max = 1;
  Driven it(experiment);
  it.run({0, 1, 2});
  (void)it.end(0, 5);
  EXPECT_EQ(it.end(1, 3),
            "collect b | b failed (exit code 3), a failed (exit code 5; not retried: 1 trial has failed, "
            "which is the limit (max_failures)), d blocked (not started: 1 trial has failed, which is the "
            "limit (max_failures))");
  EXPECT_EQ(it.life.trials.attempt(0), 1) << "the attempt that failed";
  EXPECT_EQ(it.state(2), TrialState::running);
  EXPECT_EQ(it.end(2, 1), "collect c | c failed (exit code 1)") << "nothing is retried";
}

TEST(Stops, TheFirstReasonToHaltStays) {
  Driven it("a b");
  it.life.make_ready(0);
  it.life.halt("one");
  EXPECT_EQ(it.news(), " | a blocked (not started: one), b blocked (not started: one)");
  it.life.halt("another");
  EXPECT_EQ(it.life.failures.halted(), "one");
  EXPECT_EQ(it.start(), " | ");
}

TEST(Stops, TheDeadlineStopsLivingTrialsAndBlocksTheRest) {
  Experiment experiment = test::experiment("a !s b<-a:succeeded c<-s");
  experiment.deadline = Seconds(60);
  Driven it(experiment, test::k_wait);
  it.run({1, 0, 3});
  it.life.pass_deadline();
  EXPECT_EQ(it.news(),
            "stop a, stop s, stop c | b blocked (not started: the run's deadline of 1m00s has passed), a "
            "running (stopped), c running (stopped)");
  EXPECT_EQ(it.end(0, 143), "collect a | a stopped (stopped: the run's deadline of 1m00s has passed)");
  it.life.vanish(1, {});
  EXPECT_EQ(it.news(), " | s stopped") << "a service has done its work";
}

// ---- Services

TEST(Stops, AServiceIsStoppedAfterTheLastTrialThatUsesIt) {
  Driven it("!s a<-s b<-s c", test::k_wait);
  it.run({0, 1, 2, 3});
  EXPECT_EQ(it.end(1, 0), " | a succeeded");
  EXPECT_EQ(it.end(2, 0), "stop s | b succeeded");
  it.life.settle(0, {.as = TrialState::stopped, .exit_code = 143, .reason = {}});
  EXPECT_EQ(it.news(), " | s stopped");
}

TEST(Stops, AServiceWithoutDependentsRunsUntilTheWorkIsDone) {
  Driven it("!s a b", test::k_wait);
  it.run({0, 1, 2});
  EXPECT_EQ(it.end(1, 0), " | a succeeded");
  EXPECT_EQ(it.end(2, 0), "stop s | b succeeded");
  Driven started("!s a");
  started.run({0, 1});
  EXPECT_EQ(started.end(1, 0), " | a succeeded") << "the run does not wait for its end";
}

TEST(Stops, AServiceOfATrialThatKeepsRunningKeepsRunning) {
  Driven it("!s a<-s b<-a:started", test::k_wait);
  it.run({0, 1, 2});
  EXPECT_EQ(it.end(2, 0), " | b succeeded");
  EXPECT_EQ(it.life.trials.unfinished(), 0U);
}

TEST(Stops, AServiceThatIsNotStartedAgainKeepsItsFailure) {
  Driven it(test::with_retries("!s a !t", {.max = 1, .on = {}}), test::k_wait);
  it.run({0, 1});
  (void)it.end(0, 3);
  EXPECT_EQ(it.end(1, 0),
            " | a succeeded, s stopped (exit code 3; not retried: no trial needs this service any more), "
            "t stopped");
  EXPECT_EQ(it.life.trials.attempt(0), 1);
}

TEST(Stops, AServiceThatIsUnusedWhenItRunsIsStopped) {
  Driven it("!s a<-s b", test::k_wait);
  it.life.make_ready(0);
  (void)it.start();
  it.life.finish({.trial = 1, .state = TrialState::stopped});
  (void)it.news();
  it.life.begin_to_run(0);
  EXPECT_EQ(it.news(), "stop s | s running");
}

// ---- Kill

TEST(Kill, AKillEndsAllTrialsExceptTheKeptOnes) {
  Driven it("a b c<-b:succeeded d");
  it.run({0, 1, 3});
  (void)it.end(3, 0);
  it.life.kill({0});
  EXPECT_EQ(it.news(), " | b stopped (removed by `combu kill`), c blocked (not started: the run was killed)")
      << "there are no containers left to stop";
  EXPECT_EQ(it.state(0), TrialState::running);
  EXPECT_TRUE(it.life.interrupted);
}

TEST(Kill, AKilledTrialKeepsTheFailureOfItsLastAttempt) {
  Driven it(test::with_retries("a", {.max = 1, .on = {}}));
  it.run({0});
  (void)it.end(0, 3);
  it.life.kill({});
  EXPECT_EQ(it.life.trials.facts().at(0).attempt, 1);
  EXPECT_EQ(it.news(), " | a failed (exit code 3)");
}

TEST(Kill, AKillLosesTheOutputsThatAreBeingCollected) {
  Driven it(with_outputs("a b"));
  it.run({0, 1});
  (void)it.end(0, 0);
  (void)it.end(1, 3);
  it.life.kill({});
  EXPECT_EQ(it.life.trials.facts().at(0).cause, Cause::stopped);
  EXPECT_EQ(it.life.trials.facts().at(1).cause, Cause::error);
  EXPECT_EQ(it.news(),
            " | a stopped (removed by `combu kill` before its outputs were collected), b failed (exit code "
            "3; removed by `combu kill` before its outputs were collected)");
}

}  // namespace
}  // namespace combu::schedule
