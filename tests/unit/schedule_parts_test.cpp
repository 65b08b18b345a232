// Tests of the planner's parts, each alone: table, dependencies, attempts, outputs, cache.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "experiments.hpp"
#include "schedule/attempts.hpp"
#include "schedule/cache_gate.hpp"
#include "schedule/dependency_tracker.hpp"
#include "schedule/output_collection.hpp"
#include "schedule/trial_table.hpp"
#include "schedule_trials.hpp"

namespace combu::schedule {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// ---- TrialTable

TEST(TrialTable, CountsTheTrialsByState) {
  Trials it("a b !s c<-s");
  EXPECT_EQ(it.table.count(TrialState::waiting), 4U);
  EXPECT_EQ(it.table.to_start(), 4U);
  EXPECT_EQ(it.table.unfinished(), 3U);
  it.report(0, TrialState::starting);
  it.report(2, TrialState::starting);
  EXPECT_EQ(it.table.alive(), 1U) << "services are not counted";
  it.report(0, TrialState::running);
  it.report(2, TrialState::running);
  EXPECT_EQ(it.table.running_awaited(), 1U);
  EXPECT_EQ(it.table.to_start(), 2U);
  it.report(0, TrialState::succeeded);
  EXPECT_EQ(it.table.unfinished(), 2U);
  EXPECT_EQ(it.table.alive(), 0U);
  EXPECT_EQ(it.table.count(TrialState::running), 1U);
}

TEST(TrialTable, TrialsThatOnlyServeOthersAreNotAwaited) {
  const Trials it("a b<-a:healthy c<-a:started d e<-d:started,d:succeeded !s");
  EXPECT_FALSE(it.table.is_awaited(0));
  EXPECT_TRUE(it.table.is_awaited(1));
  EXPECT_TRUE(it.table.is_awaited(3));
  EXPECT_FALSE(it.table.is_awaited(5));
  EXPECT_THAT(it.table.services(), ElementsAre(5));
}

TEST(TrialTable, FactsHaveTheAttemptAndTheTime) {
  Trials it("a");
  it.table.set_attempt(0, 3);
  it.report(0, TrialState::starting);
  ASSERT_EQ(it.table.facts().size(), 1U);
  EXPECT_EQ(it.table.facts()[0].attempt, 3);
  EXPECT_EQ(it.table.facts()[0].at, k_step_at);
}

TEST(TrialTable, FactsAreTakenOnce) {
  Trials it("a b");
  it.report(0, TrialState::starting);
  it.report(1, TrialState::starting);
  const std::vector<Fact> facts = it.table.take_facts();
  ASSERT_EQ(facts.size(), 2U);
  EXPECT_EQ(facts[1].trial, 1U);
  EXPECT_THAT(it.table.facts(), IsEmpty());
}

TEST(TrialTable, PlacesInTheStartQueueAreNotReported) {
  Trials it("a");
  it.table.set_ready(0);
  EXPECT_EQ(it.table.count(TrialState::ready), 1U);
  it.table.set_waiting(0);
  EXPECT_EQ(it.table.count(TrialState::waiting), 1U);
  EXPECT_EQ(it.table.count(TrialState::ready), 0U);
  EXPECT_THAT(it.table.facts(), IsEmpty());
}

TEST(TrialTable, LivingAndRetryingTrialsAreRestored) {
  using std::chrono::seconds;
  Trials it("a b c d");
  it.table.restore(0, {.state = TrialState::running, .attempt = 2, .ran_at = k_step_at - seconds(9)});
  it.table.restore(1, {.state = TrialState::ready, .attempt = 3});
  it.table.restore(2, {.state = TrialState::failed, .attempt = 4});
  it.table.restore(3, {});
  EXPECT_EQ(it.table.state(0), TrialState::running);
  EXPECT_EQ(it.table.alive(), 1U);
  EXPECT_EQ(it.table.attempt(0), 2);
  EXPECT_EQ(it.table.time_of(0, k_step_at - seconds(20)), k_step_at - seconds(9));
  EXPECT_EQ(it.table.state(1), TrialState::retrying);
  EXPECT_EQ(it.table.attempt(1), 3);
  EXPECT_EQ(it.table.state(2), TrialState::waiting) << "its end is reported again";
  EXPECT_EQ(it.table.attempt(2), 4);
  EXPECT_EQ(it.table.state(3), TrialState::waiting);
  EXPECT_THAT(it.table.facts(), IsEmpty());
}

TEST(TrialTable, ATimeOfTheEnginesClockLiesBetweenTheLastFactAndNow) {
  using std::chrono::seconds;
  Trials it("a");
  it.report(0, TrialState::starting);
  it.table.begin_step(k_step_at + seconds(10));
  EXPECT_EQ(it.table.time_of(0, k_step_at + seconds(4)), k_step_at + seconds(4));
  EXPECT_EQ(it.table.time_of(0, k_step_at - seconds(4)), k_step_at);
  EXPECT_EQ(it.table.time_of(0, k_step_at + seconds(40)), k_step_at + seconds(10));
  EXPECT_EQ(it.table.time_of(0, std::nullopt), k_step_at + seconds(10));
}

TEST(TrialTable, TheFactOfAStopDoesNotLimitTheTimeOfTheEnd) {
  using std::chrono::seconds;
  Trials it("a");
  it.report(0, TrialState::running);
  it.table.begin_step(k_step_at + seconds(10));
  it.table.report({.trial = 0, .state = TrialState::running, .cause = Cause::timeout});
  EXPECT_EQ(it.table.time_of(0, k_step_at + seconds(4)), k_step_at + seconds(4))
      << "it may have ended before";
}

TEST(TrialTable, CountsRunningTrialsThatMayBeRetriedOrAreMonitored) {
  Experiment experiment = test::experiment("a b c");
  experiment.trials[0].retries.max = 1;
  experiment.trials[1].timeout = Seconds(5);
  Trials it(experiment);
  for (TrialIndex trial = 0; trial < 3; ++trial) it.report(trial, TrialState::running);
  EXPECT_EQ(it.table.retriable(), 1U);
  EXPECT_EQ(it.table.monitored(), 2U);
}

// ---- DependencyTracker

TEST(DependencyTracker, ATrialIsReadyWithItsLastDependency) {
  Trials it("a b c<-a:succeeded,b:started");
  DependencyTracker dependencies(it.table, it.plan);
  EXPECT_TRUE(dependencies.are_met(0));
  EXPECT_FALSE(dependencies.are_met(2));
  EXPECT_THAT(dependencies.meet(1, Condition::succeeded), IsEmpty()) << "nobody waits for this";
  EXPECT_THAT(dependencies.meet(1, Condition::started), IsEmpty());
  EXPECT_THAT(dependencies.meet(0, Condition::succeeded), ElementsAre(2));
  EXPECT_TRUE(dependencies.are_met(2));
}

TEST(DependencyTracker, OnlyWaitingTrialsBecomeReadyOrBlocked) {
  Trials it("a b<-a:succeeded c<-a:succeeded");
  DependencyTracker dependencies(it.table, it.plan);
  it.report(1, TrialState::blocked);
  EXPECT_THAT(dependencies.waiting_for(0, Condition::succeeded), ElementsAre(2));
  EXPECT_THAT(dependencies.waiting_for(0, Condition::healthy), IsEmpty());
  EXPECT_THAT(dependencies.meet(0, Condition::succeeded), ElementsAre(2));
}

TEST(DependencyTracker, DependenciesWithoutUsersAreReleased) {
  Trials it("a b<-a c<-a d");
  DependencyTracker dependencies(it.table, it.plan);
  EXPECT_FALSE(dependencies.is_unused(0));
  EXPECT_TRUE(dependencies.is_unused(3));
  EXPECT_THAT(dependencies.release(1), IsEmpty());
  EXPECT_THAT(dependencies.release(2), ElementsAre(0));
  EXPECT_TRUE(dependencies.is_unused(0));
}

TEST(DependencyTracker, TheRootStartsTheChainOfBlockedTrials) {
  Trials it("a b<-a:succeeded c<-b:succeeded");
  DependencyTracker dependencies(it.table, it.plan);
  EXPECT_EQ(dependencies.reason({.trial = 0, .condition = Condition::succeeded}),
            "depends on `a`, which did not succeed");
  EXPECT_EQ(dependencies.block(1, 0), 0U);
  EXPECT_EQ(dependencies.reason({.trial = 1, .condition = Condition::succeeded}),
            "depends on `b`, which is blocked by `a`");
  EXPECT_EQ(dependencies.block(2, 1), 0U);
}

TEST(DependencyTracker, FindsTheDependencyThatCanNeverBeMet) {
  Trials it("a b<-a:healthy c<-a:started d<-a:succeeded e<-a:finished");
  DependencyTracker dependencies(it.table, it.plan);
  EXPECT_FALSE(dependencies.unreachable(1));
  dependencies.set_unhealthy(0);
  ASSERT_TRUE(dependencies.unreachable(1));
  EXPECT_EQ(dependencies.unreachable(1)->condition, Condition::healthy);
  EXPECT_FALSE(dependencies.unreachable(2));
  it.report(0, TrialState::failed);
  EXPECT_TRUE(dependencies.unreachable(2));
  EXPECT_TRUE(dependencies.unreachable(3));
  EXPECT_FALSE(dependencies.unreachable(4));
  EXPECT_TRUE(dependencies.set_started(0));
  EXPECT_FALSE(dependencies.set_started(0));
  EXPECT_FALSE(dependencies.unreachable(2));
  it.report(0, TrialState::skipped);
  EXPECT_FALSE(dependencies.unreachable(1));
  EXPECT_FALSE(dependencies.unreachable(3));
}

TEST(DependencyTracker, ForgetsTheConditionsOfEarlierAttempts) {
  Trials it("a");
  DependencyTracker dependencies(it.table, it.plan);
  EXPECT_TRUE(dependencies.set_started(0));
  EXPECT_TRUE(dependencies.set_healthy(0));
  dependencies.forget_attempts(0);
  EXPECT_FALSE(dependencies.was_started(0));
  EXPECT_TRUE(dependencies.set_healthy(0));
}

// ---- Attempts

TEST(Attempts, UnansweredStartsAndStopsAreCounted) {
  Attempts attempts(2);
  attempts.start_sent(0);
  attempts.start_sent(1);
  attempts.start_answered(0);
  attempts.start_answered(0);  // a repeated answer
  EXPECT_EQ(attempts.starts_in_flight(), 1U);
  attempts.stop_sent();
  EXPECT_EQ(attempts.stops_in_flight(), 1U);
  attempts.stop_answered();
  EXPECT_EQ(attempts.stops_in_flight(), 0U);
}

TEST(Attempts, CountsAttemptsWithAStopCause) {
  Attempts attempts(2);
  attempts.set_stop_cause(0, Cause::timeout);
  attempts.set_stop_cause(0, Cause::stopped);
  EXPECT_EQ(attempts.stopping(), 1U);
  EXPECT_TRUE(attempts.is_stopping(0));
  attempts.clear_stop_cause(0);
  attempts.clear_stop_cause(0);
  EXPECT_EQ(attempts.stopping(), 0U);
}

TEST(Attempts, TheNextAttemptKeepsOnlyAnUnansweredStart) {
  Attempts attempts(1);
  attempts[0].id = "id";
  attempts[0].ready_since = k_step_at;
  attempts.start_sent(0);
  attempts.set_stop_cause(0, Cause::timeout);
  attempts.renew(0);
  EXPECT_EQ(attempts[0].id, "");
  EXPECT_FALSE(attempts[0].ready_since);
  EXPECT_EQ(attempts.stopping(), 0U);
  EXPECT_EQ(attempts.starts_in_flight(), 1U);
  EXPECT_TRUE(attempts[0].is_start_in_flight);
}

TEST(Attempts, AnAttemptFirstSeenAfterTheBeginOfAListingMayBeMissing) {
  Attempts attempts(2);
  attempts.first_seen(0);
  attempts.begin_listing();
  attempts.first_seen(1);
  EXPECT_TRUE(attempts.must_be_listed(0));
  EXPECT_FALSE(attempts.must_be_listed(1));
}

// ---- OutputCollection

TEST(OutputCollection, AFaultOfTheAttemptFailsASuccess) {
  const Trials it("a");
  OutputCollection outputs(it.table);
  outputs.begin(0, {.as = TrialState::succeeded, .exit_code = 0, .reason = {}});
  const AttemptEnd end = outputs.finish(0, "/out: nothing there");
  EXPECT_EQ(end.as, TrialState::failed);
  EXPECT_EQ(end.cause, Cause::outputs);
  EXPECT_EQ(end.reason, "/out: nothing there");
}

TEST(OutputCollection, AFaultIsAddedToTheReasonOfAFailure) {
  const Trials it("a");
  OutputCollection outputs(it.table);
  outputs.begin(0, {.cause = Cause::error, .exit_code = 1, .reason = "exit code 1"});
  const AttemptEnd end = outputs.finish(0, "none");
  EXPECT_EQ(end.cause, Cause::error);
  EXPECT_EQ(reason_text(end.reason, details_of(end), 1), "exit code 1; outputs: none");
}

TEST(OutputCollection, PausesBetweenTriesDoubleUpToAMinute) {
  const Trials it("a");
  OutputCollection outputs(it.table);
  outputs.begin(0, {.as = TrialState::succeeded, .exit_code = 0, .reason = {}});
  for (const double pause : {1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60, 60})
    EXPECT_EQ(outputs.retry(0, "disk full"), Seconds(pause));
  EXPECT_EQ(outputs.tries(0), 12);
  EXPECT_EQ(outputs.undelivered(), "a: disk full");
  EXPECT_EQ(outputs.finish(0, "").as, TrialState::succeeded);
  EXPECT_EQ(outputs.undelivered(), "");
}

TEST(OutputCollection, AttemptsStoppedBeforeABreakAreLost) {
  const Trials it("a b c");
  OutputCollection outputs(it.table);
  outputs.begin(0, {.cause = Cause::stopped, .exit_code = 143, .reason = "stopped"});
  outputs.begin(1, {.cause = Cause::error, .exit_code = 1, .reason = "failed"});
  outputs.begin(2,
                {.cause = Cause::stopped, .exit_code = 143, .reason = "by alice", .engine = Break::was_not});
  outputs.mark_lost();
  EXPECT_EQ(outputs.end_of(0).cause, Cause::host_lost);
  EXPECT_THAT(outputs.end_of(0).reason, testing::StartsWith("lost with its host or engine"));
  EXPECT_EQ(outputs.end_of(1).cause, Cause::error);
  EXPECT_EQ(outputs.end_of(2).cause, Cause::stopped);
}

TEST(OutputCollection, ACommandIsAnsweredOnce) {
  const Trials it("a");
  OutputCollection outputs(it.table);
  outputs.sent(0);
  EXPECT_TRUE(outputs.is_in_flight(0));
  EXPECT_EQ(outputs.in_flight(), 1U);
  EXPECT_TRUE(outputs.answered(0));
  EXPECT_FALSE(outputs.answered(0));
  EXPECT_EQ(outputs.in_flight(), 0U);
}

// ---- CacheGate

TEST(CacheGate, LooksUpAwaitedTrialsWithCacheOnce) {
  Experiment experiment = test::experiment("a b !s c<-s");
  for (TrialIndex trial : {0, 2}) experiment.trials[trial].cache.on = true;
  const Trials it(experiment);
  CacheGate lookups(it.table, it.plan, true);
  EXPECT_TRUE(lookups.needs_lookup(0));
  EXPECT_FALSE(lookups.needs_lookup(1));
  EXPECT_FALSE(lookups.needs_lookup(2)) << "a service has no end";
  lookups.sent(0);
  EXPECT_FALSE(lookups.needs_lookup(0));
  EXPECT_TRUE(lookups.is_in_flight(0));
  EXPECT_TRUE(lookups.answered(0));
  EXPECT_FALSE(lookups.answered(0));
  EXPECT_FALSE(lookups.needs_lookup(0));
  lookups.reset(0);
  EXPECT_TRUE(lookups.needs_lookup(0));
  lookups.skip_lookup(0);
  EXPECT_FALSE(lookups.needs_lookup(0));
  EXPECT_FALSE(CacheGate(it.table, it.plan, false).needs_lookup(0));
}

TEST(CacheGate, ALookupNeedsTheInputs) {
  Experiment experiment = test::experiment("a b<-a:succeeded c<-a:finished");
  for (Trial& trial : experiment.trials) trial.cache.on = true;
  experiment.trials[0].outputs = {{.path = "/out"}};
  experiment.trials[1].inputs = {{.from = "/out", .trial = "a", .to = "/in", .path = ""}};
  Trials it(experiment);
  const CacheGate lookups(it.table, it.plan, true);
  EXPECT_TRUE(lookups.are_inputs_known(0));
  EXPECT_FALSE(lookups.are_inputs_known(1));
  EXPECT_THAT(lookups.next_lookups(0), ElementsAre(2));
  it.report(0, TrialState::succeeded);
  EXPECT_THAT(lookups.next_lookups(0), ElementsAre(1, 2));
  it.report(1, TrialState::blocked);
  EXPECT_THAT(lookups.next_lookups(0), ElementsAre(2));
}

TEST(CacheGate, ReleasesHeldTrialsOnce) {
  const Trials it("a b");
  CacheGate lookups(it.table, it.plan, true);
  lookups.hold(1);
  lookups.hold(0);
  EXPECT_THAT(lookups.release(), ElementsAre(1, 0));
  EXPECT_THAT(lookups.release(), IsEmpty());
}

}  // namespace
}  // namespace combu::schedule
