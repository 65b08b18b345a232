// The transitions of the trials, without the planner's events: starts, ends of attempts, outputs, retries,
// cache lookups.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "schedule_driven.hpp"

namespace combu::schedule {
namespace {

using test::at;

Experiment with_cache(const std::string& text) {
  Experiment experiment = test::experiment(text);
  for (Trial& trial : experiment.trials) trial.cache.on = !trial.service;
  return experiment;
}

// ---- Before the start

TEST(Lifecycle, AReadyTrialIsStarted) {
  Driven it("a=2 b", test::with_cpus("2"));
  it.life.holdings.begin_listing();
  it.life.make_ready(0);
  EXPECT_EQ(it.state(0), TrialState::ready);
  EXPECT_EQ(it.news(), " | ") << "ready is reported only if the trial was started before";
  EXPECT_EQ(it.start(), "start a | a starting");
  EXPECT_EQ(it.life.holdings.held(), test::Planned::cpus("2"));
  EXPECT_EQ(it.life.attempts.starts_in_flight(), 1U);
  it.life.answer_start(0);
  EXPECT_EQ(it.life.attempts.starts_in_flight(), 0U);
}

TEST(Lifecycle, TheLimitOfStartsInFlightIsKept) {
  Driven it("a b");
  it.life.make_ready(0);
  it.life.make_ready(1);
  EXPECT_EQ(it.start({.starts_in_flight_max = 1}), "start a | a starting");
  EXPECT_EQ(it.start({.starts_in_flight_max = 1}), " | ");
  it.life.answer_start(0);
  EXPECT_EQ(it.start({.parallel_max = 1}), " | ");
  EXPECT_EQ(it.start(), "start b | b starting");
}

TEST(Lifecycle, NothingStartsInAPauseOrAfterAnInterrupt) {
  Driven it("a");
  it.life.make_ready(0);
  EXPECT_EQ(it.start({.paused = true}), " | ");
  it.life.interrupted = true;
  EXPECT_EQ(it.start(), " | ");
  EXPECT_EQ(it.obstacle(0), Explanation::Kind::interrupted);
}

TEST(Lifecycle, ATrialWhoseStartIsRolledBackIsReadyAgain) {
  Driven it("a=2", test::with_cpus("2"));
  it.life.holdings.begin_listing();
  it.life.make_ready(0);
  (void)it.start();
  it.life.answer_start(0);
  it.life.undo_start(0);
  EXPECT_EQ(it.news(), " | a ready");
  EXPECT_TRUE(it.life.holdings.held().empty());
  EXPECT_EQ(it.start(), "start a | a starting");
}

TEST(Lifecycle, ATrialWhoseStartIsRolledBackDuringAStopHasFailed) {
  Driven it(test::with_start_deadline(test::experiment("a"), Seconds(5)));
  it.life.make_ready(0);
  (void)it.start();
  EXPECT_EQ(it.life.timers.next(), at(5));
  it.life.stop(0, Cause::start_deadline);
  (void)it.news();
  it.life.undo_start(0);
  EXPECT_EQ(it.news(), " | a failed (did not run within its start_deadline of 5.0 s)");
}

TEST(Lifecycle, TrialsWaitForTheCanaryOfTheirShape) {
  Driven it(test::with_canary("a b c"));
  for (const TrialIndex trial : {0, 1, 2}) it.life.make_ready(trial);
  EXPECT_EQ(it.start(), "start a | a starting");
  EXPECT_EQ(it.state(1), TrialState::waiting);
  EXPECT_EQ(it.obstacle(1), Explanation::Kind::canary);
  it.run({0});
  EXPECT_EQ(it.end(0, 0), " | a succeeded");
  EXPECT_EQ(it.start(), "start b, start c | b starting, c starting");
}

TEST(Lifecycle, AFailedCanaryBlocksItsShapeAndALostCanaryDoesNot) {
  Driven failed(test::with_canary("a b"));
  for (const TrialIndex trial : {0, 1}) failed.life.make_ready(trial);
  failed.run({0});
  EXPECT_EQ(failed.end(0, 1), "collect a | a failed (exit code 1), b blocked (the canary `a` failed)");
  Driven lost(test::with_canary("a b"));
  for (const TrialIndex trial : {0, 1}) lost.life.make_ready(trial);
  lost.run({0});
  lost.life.fail_attempt(0, {.cause = Cause::host_lost, .exit_code = std::nullopt, .reason = "lost"});
  EXPECT_EQ(lost.news(), " | a failed (lost)");
  EXPECT_EQ(lost.start(), "start b | b starting");
}

// ---- While an attempt runs

TEST(Lifecycle, ARunningTrialMeetsConditionsOnce) {
  Driven it("a b<-a:started c<-a:healthy d<-a:started,a:healthy");
  it.life.make_ready(0);
  (void)it.start();
  it.life.attempts[0].ran_at = at(2);
  it.life.trials.begin_step(at(3));
  it.life.begin_to_run(0);
  EXPECT_EQ(it.life.trials.facts().at(0).at, at(2)) << "the time of the engine's clock";
  EXPECT_EQ(it.news(), " | a running");
  EXPECT_EQ(it.state(1), TrialState::ready);
  EXPECT_EQ(it.state(2), TrialState::waiting);
  it.life.become_healthy(0);
  EXPECT_EQ(it.news(), " | a healthy");
  EXPECT_EQ(it.state(2), TrialState::ready);
  EXPECT_EQ(it.state(3), TrialState::ready);
  it.life.become_healthy(0);
  EXPECT_EQ(it.news(), " | ");
}

TEST(Lifecycle, AnUnhealthyTrialBlocksDependentsThatWaitForItsHealth) {
  Driven it("a b<-a:healthy c<-a:started");
  it.run({0});
  it.life.become_unhealthy(0);
  EXPECT_EQ(it.news(), " | b blocked (depends on `a`, which did not become healthy)");
  EXPECT_EQ(it.state(2), TrialState::ready);
  Driven healthy("a b<-a:healthy");
  healthy.run({0});
  healthy.life.become_healthy(0);
  (void)healthy.news();
  healthy.life.become_unhealthy(0);
  EXPECT_EQ(healthy.news(), " | ");
}

// ---- The end of an attempt

TEST(Lifecycle, AFailedAttemptIsFollowedByTheNextAfterAPause) {
  Driven it(test::with_retries("a b<-a:succeeded", {.max = 1, .on = {}, .pause = Seconds(4)}));
  it.run({0});
  EXPECT_EQ(it.end(0, 3), "collect a | a retrying (exit code 3; attempt 2 in 4.0 s)");
  EXPECT_EQ(it.life.trials.attempt(0), 2);
  EXPECT_EQ(it.life.timers.next(), at(4));
  EXPECT_EQ(it.obstacle(0), Explanation::Kind::retry);
  it.life.retry_when_possible(0);
  EXPECT_EQ(it.state(0), TrialState::retrying) << "the pause is not over";
  it.become_due(0);
  EXPECT_EQ(it.state(0), TrialState::retrying) << "its container is still needed";
  EXPECT_TRUE(it.life.outputs.answered(0));
  it.life.trials.begin_step(at(4));
  it.life.retry_when_possible(0);
  EXPECT_EQ(it.state(0), TrialState::ready);
  it.life.start_ready_trials({});
  EXPECT_EQ(it.life.trials.facts().at(0).ready_at, at(4));
  EXPECT_EQ(it.news(), "start a#2 | a starting");
  it.life.report_waiting_retries();
  EXPECT_EQ(it.news(), " | ") << "it does not wait";
  it.run({0});
  EXPECT_EQ(
      it.end(0, 4),
      "collect a#2 | a failed (exit code 4, after 2 attempts), b blocked (depends on `a`, which did not "
      "succeed)");
}

TEST(Lifecycle, ARetryDoesNotMeetConditionsASecondTime) {
  Driven it(test::with_retries("a b c<-a:started,b", {.max = 1, .on = {}}));
  it.run({0});
  (void)it.end(0, 3);
  EXPECT_TRUE(it.life.outputs.answered(0));
  it.become_due(0);
  it.run({0});
  EXPECT_EQ(it.state(2), TrialState::waiting) << "b does not run";
}

TEST(Lifecycle, ARetryWhoseStartIsRolledBackKeepsItsReadyTime) {
  Driven it(test::with_retries("a", {.max = 1, .on = {}}));
  it.run({0});
  it.life.fail_attempt(0, {.cause = Cause::error, .exit_code = std::nullopt, .reason = "lost"});
  it.life.trials.begin_step(at(3));
  it.become_due(0);
  (void)it.start();
  it.life.trials.begin_step(at(9));
  it.life.undo_start(0);
  (void)it.news();
  it.life.start_ready_trials({});
  EXPECT_EQ(it.life.trials.facts().at(0).ready_at, at(3));
}

TEST(Lifecycle, ARetryThatHasToWaitIsReported) {
  Driven it(test::with_retries("a", {.max = 1, .on = {}}));
  it.run({0});
  it.life.fail_attempt(0, {.cause = Cause::error, .exit_code = std::nullopt, .reason = "lost"});
  (void)it.news();
  it.become_due(0);
  EXPECT_EQ(it.start({.paused = true}), " | ");
  it.life.report_waiting_retries();
  EXPECT_EQ(it.news(), " | a ready");
  it.life.report_waiting_retries();
  EXPECT_EQ(it.news(), " | ");
}

TEST(Lifecycle, ARetryThatTheNextProcessStartsIsNotReported) {
  Driven it(test::with_retries("a", {.max = 1, .on = {}}));
  it.run({0});
  it.life.fail_attempt(0, {.cause = Cause::error, .exit_code = std::nullopt, .reason = "lost"});
  (void)it.news();
  it.become_due(0);
  it.life.interrupted = true;
  it.life.report_waiting_retries();
  EXPECT_EQ(it.news(), " | ");
}

TEST(Lifecycle, TheStopperOfAnAttemptIsForgottenWhenTheNextBegins) {
  Driven it(test::with_retries("a", {.max = 1, .on = {}}));
  it.run({0});
  it.life.failures.set_stopper(0, "alice");
  (void)it.end(0, 3);
  EXPECT_FALSE(it.life.failures.has_stopper(0));
}

TEST(Lifecycle, ANewAttemptWaitsForTheAnswerOfTheLastStart) {
  Driven it(test::with_retries("a", {.max = 1, .on = {}}));
  it.life.make_ready(0);
  (void)it.start();
  it.life.fail_attempt(0, {.cause = Cause::start, .exit_code = std::nullopt, .reason = {}});
  EXPECT_EQ(it.news(), " | a retrying (could not be started; attempt 2 in 1.0 s)");
  it.become_due(0);
  EXPECT_EQ(it.state(0), TrialState::retrying);
  it.life.answer_start(0);
  EXPECT_EQ(it.state(0), TrialState::ready);
}

TEST(Lifecycle, AFailureWithoutRetriesBlocksAllDependents) {
  Driven it("a b<-a:succeeded c<-b:succeeded d<-a:finished");
  it.run({0});
  EXPECT_EQ(
      it.end(0, 3),
      "collect a | a failed (exit code 3), b blocked (depends on `a`, which did not succeed), c blocked "
      "(depends on `b`, which is blocked by `a`)");
  EXPECT_EQ(it.state(3), TrialState::ready) << "it works with what there is";
}

TEST(Lifecycle, AnEndTakesEffectOnOtherTrialsInSpreadAll) {
  Driven it("a b<-a:succeeded");
  it.run({0});
  it.life.defer_spreading();
  EXPECT_EQ(it.end(0, 0), " | a succeeded");
  EXPECT_EQ(it.state(1), TrialState::waiting);
  it.life.spread_all();
  EXPECT_EQ(it.state(1), TrialState::ready);
}

TEST(Lifecycle, MemoryGrowsAfterAnAttemptThatRanOutOfMemory) {
  Experiment experiment = test::with_retries("a", {.max = 1, .on = {}, .grow_memory = 2});
  experiment.trials[0].slots.memory = parse_bytes("1 GiB");
  Driven it(experiment);
  it.run({0});
  it.life.fail_attempt(0, {.cause = Cause::oom, .exit_code = 137, .reason = {}});
  EXPECT_EQ(it.news(),
            "collect a | a retrying (out of memory at 1 GiB (exit code 137, SIGKILL); attempt 2 in 1.0 s)");
  EXPECT_EQ(it.life.requests.of(0).memory, parse_bytes("2 GiB"));
}

TEST(Lifecycle, ARemovedContainerStopsItsTrial) {
  Driven it("a b");
  it.run({0, 1});
  it.life.vanish(0, {});
  EXPECT_EQ(it.news(), " | a stopped (the container was removed while the attempt ran)")
      << "nothing is collected";
  it.life.vanish(1, "nobody knows");
  EXPECT_EQ(it.news(), " | b stopped (nobody knows)");
}

TEST(Lifecycle, AGivenReasonReplacesTheStopCauseOfARemovedContainer) {
  Driven it("a b !s", test::k_wait);
  it.run({0, 1, 2});
  it.life.halt("why");
  for (const TrialIndex trial : {0, 1}) it.life.stop(trial, Cause::stopped);
  (void)it.news();
  it.life.vanish(0, {});
  EXPECT_EQ(it.news(), " | a stopped (stopped: why)");
  it.life.vanish(1, "nobody knows");
  EXPECT_EQ(it.news(), "stop s | b stopped (nobody knows)");
  it.life.vanish(2, {});
  EXPECT_EQ(it.news(), " | s stopped");
}

// ---- Edited files

TEST(Lifecycle, AReplacedTrialForgetsItsEarlierAttempts) {
  Experiment experiment = test::with_retries("a b<-a:started", {.max = 1, .on = {}, .grow_memory = 2});
  experiment.trials[0].slots.memory = parse_bytes("1 GiB");
  Driven it(experiment);
  it.run({0});
  it.life.count_failure(0, Cause::oom);
  it.life.departures.emplace(0, Departure::replaced);
  it.life.fail_attempt(0, {.cause = Cause::error, .exit_code = 3, .reason = {}});
  EXPECT_TRUE(it.life.trials.facts().at(0).is_reset);
  EXPECT_EQ(it.news(), " | a retrying (" + std::string(reason_of(Departure::replaced)) + ")")
      << "nothing is collected";
  EXPECT_FALSE(it.life.departs(0));
  EXPECT_EQ(it.state(0), TrialState::ready);
  EXPECT_FALSE(it.life.dependencies.was_started(0));
  EXPECT_TRUE(it.life.failures.may_retry(0, Cause::error));
  EXPECT_EQ(it.life.requests.of(0).memory, parse_bytes("1 GiB"));
  EXPECT_EQ(it.start(), "start a#2, start b | a starting, b starting");
}

TEST(Lifecycle, AReplacedTrialIsLookedUpAgain) {
  Driven it(with_cache("a"), {.looks_up_cache = true});
  it.life.begin_lookups();
  EXPECT_TRUE(it.life.lookups.answered(0));
  it.run({0});
  it.life.departures.emplace(0, Departure::replaced);
  it.life.vanish(0, {});
  EXPECT_THAT(it.news(), testing::StartsWith("recall a | "));
}

TEST(Lifecycle, ADepartingAttemptMeetsNoConditions) {
  Driven it("a b<-a:started");
  it.life.make_ready(0);
  (void)it.start();
  it.life.departures.emplace(0, Departure::replaced);
  it.life.begin_to_run(0);
  EXPECT_EQ(it.news(), " | a running");
  EXPECT_EQ(it.state(1), TrialState::waiting);
}

TEST(Lifecycle, AReplacedTrialWhoseDependencyCanNeverBeMetIsBlocked) {
  Driven it("a b<-a:succeeded");
  it.run({0});
  (void)it.end(0, 0);
  it.run({1});
  it.life.trials.report({.trial = 0, .state = TrialState::failed});
  (void)it.news();
  it.life.departures.emplace(1, Departure::replaced);
  it.life.vanish(1, {});
  EXPECT_THAT(it.news(), testing::EndsWith(", b blocked (depends on `a`, which did not succeed)"));
}

TEST(Lifecycle, ARemovedTrialIsOverAndHasNotFailed) {
  Driven it("a b<-a:succeeded");
  it.run({0});
  it.life.departures.emplace(0, Departure::removed);
  it.life.vanish(0, "ignored");
  EXPECT_EQ(it.life.trials.facts().at(0).cause, Cause::none);
  EXPECT_EQ(it.news(), " | a stopped (" + std::string(reason_of(Departure::removed)) +
                           "), b blocked (depends on `a`, which did not succeed)");
}

// ---- Outputs

TEST(Lifecycle, OutputsAreCollectedBeforeATrialIsOver) {
  Driven it(with_outputs("a=2 b<-a:succeeded"), test::with_cpus("2"));
  it.life.holdings.begin_listing();
  it.run({0});
  it.life.trials.begin_step(at(5));
  it.life.settle(0, {.as = TrialState::succeeded, .exit_code = 0, .reason = {}, .at = at(3)});
  EXPECT_EQ(it.life.trials.facts().at(0).at, at(3));
  EXPECT_EQ(it.news(), "take a | a collecting");
  EXPECT_TRUE(it.life.holdings.held().empty()) << "collecting holds no slots";
  EXPECT_EQ(it.state(1), TrialState::waiting);
  it.life.trials.begin_step(at(7));
  it.life.finish_collecting(0, "");
  EXPECT_EQ(it.life.trials.facts().at(0).at, at(7)) << "the trial is over when its outputs are collected";
  EXPECT_EQ(it.news(), " | a succeeded");
  EXPECT_EQ(it.state(1), TrialState::ready);
}

TEST(Lifecycle, AnAttemptWithoutItsOutputsHasFailed) {
  Driven it(with_outputs("a"));
  it.run({0});
  (void)it.end(0, 0);
  it.life.finish_collecting(0, "/out: nothing there");
  EXPECT_EQ(it.life.trials.facts().at(0).cause, Cause::outputs);
  EXPECT_EQ(it.news(), " | a failed (/out: nothing there)");
}

TEST(Lifecycle, OutputsOfFailedAttemptsAreCollectedIfTheExperimentSaysSo) {
  Experiment experiment = with_outputs("a");
  Driven always(experiment);
  always.run({0});
  EXPECT_EQ(always.end(0, 3), "take a | a collecting (exit code 3)");
  always.life.finish_collecting(0, "");
  EXPECT_EQ(always.news(), " | a failed (exit code 3)");
  experiment.collect.on = CollectOn::success;
  Driven success(experiment);
  success.run({0});
  EXPECT_EQ(success.end(0, 3), "collect a | a failed (exit code 3)");
}

TEST(Lifecycle, CollectingIsRetriedAsLongAsTheRunHasOtherWork) {
  Driven it(with_outputs("a b"));
  it.run({0, 1});
  (void)it.end(0, 0);
  EXPECT_TRUE(it.life.outputs.answered(0));
  EXPECT_TRUE(it.life.collect_again(0, "disk full"));
  EXPECT_EQ(it.news(), " | a collecting (its outputs are not collected yet: disk full)");
  EXPECT_EQ(it.life.timers.next(), at(1));
  it.life.retry_collecting(0);
  EXPECT_EQ(it.news(), "take a | ");
  EXPECT_TRUE(it.life.outputs.answered(0));
  for (int tries = 2; tries <= 20; ++tries) EXPECT_TRUE(it.life.collect_again(0, "disk full")) << tries;
  EXPECT_EQ(it.news(), " | ") << "the fault is reported once";
  it.life.fail(1, {.cause = Cause::error, .exit_code = 1, .reason = "exit code 1"});
  EXPECT_FALSE(it.life.collect_again(0, "disk full"));
}

// ---- Shutdown of the engine

TEST(Lifecycle, AStopByTheEnginesShutdownIsALostHost) {
  Driven it(test::with_retries("a", {.max = 1, .on = {}}));
  it.run({0});
  EXPECT_EQ(it.end_by_signal(0),
            "collect a | a retrying (stopped from outside (exit code 143, SIGTERM); retried if the "
            "engine is being restarted)");
  EXPECT_EQ(it.life.trials.attempt(0), 1) << "there may be no other attempt";
  EXPECT_EQ(it.life.timers.next(), at(75));
  it.life.blame_engine();
  EXPECT_EQ(it.life.trials.attempt(0), 2);
  EXPECT_EQ(it.life.timers.next(), at(0)) << "without a pause";
  EXPECT_TRUE(it.life.failures.may_retry(0, Cause::error)) << "a lost host spends no retries";
}

TEST(Lifecycle, ATrialThatAwaitsAVerdictIsNotRetriedYet) {
  Driven it(test::with_retries("a", {.max = 1, .on = {}}));
  it.run({0});
  (void)it.end(0, 3);
  EXPECT_TRUE(it.life.outputs.answered(0));
  it.become_due(0);
  it.run({0});
  (void)it.end_by_signal(0);
  EXPECT_TRUE(it.life.outputs.answered(0));
  it.life.retry_when_possible(0);
  EXPECT_EQ(it.state(0), TrialState::retrying);
}

TEST(Lifecycle, ATrialThatIsLostTooOftenFails) {
  Driven it(test::with_retries("a", {.max = 1, .on = {}}));
  for (int losses = 1; losses < Planner::k_losses_max; ++losses) it.life.count_failure(0, Cause::host_lost);
  it.run({0});
  (void)it.end_by_signal(0);
  it.life.blame_engine();
  EXPECT_FALSE(it.life.failures.may_retry(0, Cause::host_lost));
}

TEST(Lifecycle, AnAttemptThatTheEngineStoppedIsLostDuringCollection) {
  Driven it(with_outputs("a"));
  it.run({0});
  EXPECT_EQ(it.end_by_signal(0), "take a | a collecting (stopped from outside (exit code 143, SIGTERM))");
  it.life.blame_engine();
  it.life.finish_collecting(0, "");
  EXPECT_EQ(it.news(), " | a failed (lost with its host or engine (exit code 143, SIGTERM))");
}

// ---- Cache lookups

TEST(Lifecycle, ATrialIsLookedUpBeforeItsStartAndServicesWaitForAllLookups) {
  Driven it(with_cache("a !s b<-s"), {.until = Until::ended, .looks_up_cache = true});
  it.life.begin_lookups();
  EXPECT_EQ(it.news(), "recall a, recall b | ");
  it.life.make_ready(0);
  it.life.make_ready(1);
  EXPECT_EQ(it.start(), " | ");
  EXPECT_EQ(it.obstacle(0), Explanation::Kind::lookup);
  for (const TrialIndex trial : {0, 2}) EXPECT_TRUE(it.life.lookups.answered(trial));
  it.life.release_held();
  EXPECT_EQ(it.state(1), TrialState::ready);
}

TEST(Lifecycle, AServiceThatOnlySkippedTrialsUseIsNotStarted) {
  Driven it(with_cache("!s a<-s"), {.until = Until::ended, .looks_up_cache = true});
  it.life.begin_lookups();
  it.life.make_ready(0);
  (void)it.news();
  EXPECT_TRUE(it.life.lookups.answered(1));
  it.life.defer_spreading();
  it.life.finish({.trial = 1, .state = TrialState::skipped, .reason = "as before"});
  EXPECT_EQ(it.news(), " | a skipped (as before)");
  it.life.spread_all();
  it.life.release_held();
  EXPECT_EQ(it.news(), " | s stopped");
}

TEST(Lifecycle, ASkippedTrialMeetsEveryCondition) {
  Driven it("a b<-a:healthy c<-a:succeeded d<-a:started");
  it.life.finish({.trial = 0, .state = TrialState::skipped, .reason = "as before"});
  for (const TrialIndex trial : {1, 2, 3}) EXPECT_EQ(it.state(trial), TrialState::ready) << trial;
}

// ---- Idle runs

TEST(Lifecycle, TheRunIsIdleWhenNothingIsUnderWay) {
  Driven it("a !s");
  EXPECT_TRUE(it.life.is_idle());
  it.run({1});
  EXPECT_TRUE(it.life.is_idle()) << "a service has no end";
  it.life.make_ready(0);
  EXPECT_TRUE(it.life.is_idle());
  (void)it.start();
  EXPECT_FALSE(it.life.is_idle());
  it.run({0});
  EXPECT_FALSE(it.life.is_idle());
  (void)it.end(0, 3);
  EXPECT_FALSE(it.life.is_idle()) << "its log is collected";
  EXPECT_TRUE(it.life.outputs.answered(0));
  EXPECT_TRUE(it.life.is_idle());
}

}  // namespace
}  // namespace combu::schedule
