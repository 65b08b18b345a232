// Tests of the planner's parts, each alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "experiments.hpp"
#include "schedule/attempts.hpp"
#include "schedule/cache_gate.hpp"
#include "schedule/dependency_tracker.hpp"
#include "schedule/failure_policy.hpp"
#include "schedule/output_collection.hpp"
#include "schedule/restoration.hpp"
#include "schedule/slot_requests.hpp"
#include "schedule/start_queue.hpp"
#include "schedule/trial_table.hpp"

namespace combu::schedule {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Instant k_step_at{std::chrono::seconds(1'800'000'000)};

// An experiment, its plan, and the table of its trials.
struct Trials {
  explicit Trials(const std::string& text) : Trials(test::experiment(text)) {}
  explicit Trials(Experiment of) : experiment(std::move(of)) { table.begin_step(k_step_at); }
  void report(TrialIndex trial, TrialState state) { table.report({.trial = trial, .state = state}); }

  Experiment experiment;
  Plan plan = test::plan(experiment);
  TrialTable table{experiment, plan};
};

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

// ---- FailurePolicy

Experiment with_retries(int max) {
  Experiment experiment = test::experiment("a b c");
  for (Trial& trial : experiment.trials) {
    trial.retries.max = max;
    trial.retries.on.set();
  }
  return experiment;
}

TEST(FailurePolicy, RetriesUntilTheRetriesAreSpent) {
  const Trials it(with_retries(2));
  FailurePolicy failures(it.experiment, it.table);
  EXPECT_TRUE(failures.may_retry(0, Cause::error));
  failures.count(0, Cause::error);
  failures.count(0, Cause::error);
  EXPECT_FALSE(failures.may_retry(0, Cause::error));
  EXPECT_TRUE(failures.may_retry(0, Cause::host_lost)) << "a lost host spends no retries";
  EXPECT_TRUE(failures.may_retry(1, Cause::error));
  failures.reset(0);
  EXPECT_TRUE(failures.may_retry(0, Cause::error));
}

TEST(FailurePolicy, LossesHaveALimitOfTheirOwn) {
  const Trials it(with_retries(1));
  FailurePolicy failures(it.experiment, it.table);
  for (int i = 0; i < Planner::k_losses_max; ++i) {
    EXPECT_TRUE(failures.may_retry(0, Cause::host_lost)) << i;
    failures.count(0, Cause::host_lost);
  }
  EXPECT_FALSE(failures.may_retry(0, Cause::host_lost));
  EXPECT_EQ(failures.pause(0, Cause::host_lost), Seconds(0));
}

TEST(FailurePolicy, NothingIsRetriedAfterAHaltOrTheEndOfRetries) {
  const Trials it(with_retries(1));
  FailurePolicy halted(it.experiment, it.table);
  halted.halt("why");
  EXPECT_FALSE(halted.may_retry(0, Cause::error));
  EXPECT_EQ(text_of(halted.stop_cause_reason(0, Cause::stopped)), "stopped: why");
  FailurePolicy ended(it.experiment, it.table);
  ended.end_retries();
  EXPECT_FALSE(ended.may_retry(0, Cause::error));
}

TEST(FailurePolicy, AwaitsTheEngineIfItMayHaveStoppedTheAttempt) {
  Experiment experiment = with_retries(1);
  for (Trial& trial : experiment.trials) trial.retries.on.reset(static_cast<std::size_t>(Cause::stopped));
  const Trials it(experiment);
  const FailurePolicy failures(it.experiment, it.table);
  AttemptEnd end{.cause = Cause::stopped, .exit_code = 143, .reason = {}};
  EXPECT_EQ(failures.judge(0, end), FailurePolicy::Verdict::await_engine);
  end.engine = Break::was_not;
  EXPECT_EQ(failures.judge(0, end), FailurePolicy::Verdict::fail);
  end = {.cause = Cause::stopped, .exit_code = std::nullopt, .reason = {}};
  EXPECT_EQ(failures.judge(0, end), FailurePolicy::Verdict::fail) << "its container was removed";
  end.cause = Cause::error;
  EXPECT_EQ(failures.judge(0, end), FailurePolicy::Verdict::retry);
}

TEST(FailurePolicy, OnlyTrialsThatWaitForTheirNextAttemptHaveALastFailure) {
  Trials it(with_retries(1));
  FailurePolicy failures(it.experiment, it.table);
  it.table.set_attempt(0, 2);
  it.report(0, TrialState::retrying);
  EXPECT_EQ(failures.last(0), nullptr);
  failures.remember(0, {.cause = Cause::stopped, .exit_code = 143, .reason = "why"});
  const Fact* last = failures.last(0);
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->state, TrialState::stopped);
  EXPECT_EQ(last->attempt, 2);
  EXPECT_EQ(last->reason, "why");
  it.report(0, TrialState::running);
  EXPECT_EQ(failures.last(0), nullptr);
}

TEST(FailurePolicy, TrialsThatStillAwaitTheEngineAreTakenOnce) {
  Trials it(with_retries(1));
  FailurePolicy failures(it.experiment, it.table);
  it.report(0, TrialState::retrying);
  it.report(1, TrialState::stopped);
  failures.await(0);
  failures.await(1);
  EXPECT_THAT(failures.release_awaiting(), ElementsAre(0));
  EXPECT_THAT(failures.release_awaiting(), IsEmpty());
}

TEST(FailurePolicy, TheReasonNamesWhoStoppedAnAttempt) {
  const Trials it(with_retries(1));
  FailurePolicy failures(it.experiment, it.table);
  EXPECT_EQ(text_of(failures.stop_reason(0, 143)), "stopped from outside (exit code 143, SIGTERM)");
  failures.set_stopper(0, "alice");
  EXPECT_EQ(text_of(failures.stop_reason(0, 143)), "stopped by alice with `combu stop`");
  failures.forget_stopper(0);
  EXPECT_FALSE(failures.has_stopper(0));
}

TEST(FailurePolicy, TheLimitIsReachedAfterFailuresMax) {
  Experiment experiment = with_retries(0);
  experiment.failures_max = 2;
  Trials it(experiment);
  const FailurePolicy failures(it.experiment, it.table);
  it.report(0, TrialState::failed);
  EXPECT_FALSE(failures.limit_reached());
  it.report(1, TrialState::failed);
  EXPECT_EQ(failures.limit_reached(), "2 trials have failed, which is the limit (max_failures)");
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

// ---- Restoration

Restoration::Way way_of(const RestoredTrial& restored, bool may_retry_stopped = false,
                        std::optional<Instant> engine_began_at = std::nullopt) {
  return Restoration({restored}, engine_began_at).way(0, may_retry_stopped);
}

TEST(Restoration, TheWayFollowsFromTheState) {
  using Way = Restoration::Way;
  EXPECT_EQ(way_of({.state = TrialState::waiting}), Way::waits);
  EXPECT_EQ(way_of({.state = TrialState::starting}), Way::lives);
  EXPECT_EQ(way_of({.state = TrialState::running}), Way::lives);
  EXPECT_EQ(way_of({.state = TrialState::running, .departure = Departure::removed}), Way::departs);
  EXPECT_EQ(way_of({.state = TrialState::retrying, .cause = Cause::error}), Way::retries);
  EXPECT_EQ(way_of({.state = TrialState::ready, .cause = Cause::error}), Way::retries);
  EXPECT_EQ(way_of({.state = TrialState::collecting}), Way::collects);
  EXPECT_EQ(way_of({.state = TrialState::blocked}), Way::is_over);
}

TEST(Restoration, AStoppedAttemptIsLostOnlyIfTheEngineBeganLater) {
  using std::chrono::seconds;
  const RestoredTrial restored{.state = TrialState::retrying, .cause = Cause::stopped, .ran_at = k_step_at};
  EXPECT_EQ(way_of(restored, false, k_step_at + seconds(1)), Restoration::Way::retries);
  EXPECT_EQ(way_of(restored, false, k_step_at - seconds(1)), Restoration::Way::fails);
  EXPECT_EQ(way_of(restored, true, k_step_at - seconds(1)), Restoration::Way::retries);
  EXPECT_EQ(Restoration({restored}, {}).retry_cause(0, false), Cause::host_lost);
  EXPECT_EQ(Restoration({restored}, {}).retry_cause(0, true), Cause::stopped);
}

TEST(Restoration, AWaitingTrialWithAnAttemptWasStarted) {
  const auto seen = [](Phase phase, int attempt) {
    return Observation{.key = {.run = RunId("r1"), .trial = "a", .attempt = attempt}, .phase = phase};
  };
  Restoration restoration({{.attempt = 2}, {.state = TrialState::retrying}}, {});
  EXPECT_FALSE(restoration.add_start(0, seen(Phase::created, 2)));
  EXPECT_FALSE(restoration.add_start(0, seen(Phase::ended, 1))) << "that is an earlier attempt";
  EXPECT_FALSE(restoration.add_start(1, seen(Phase::running, 1)));
  EXPECT_TRUE(restoration.add_start(0, seen(Phase::running, 3)));
  EXPECT_EQ(restoration.restored(0).state, TrialState::starting);
  EXPECT_EQ(restoration.restored(0).attempt, 3);
  EXPECT_FALSE(Restoration({}, {}).add_start(0, seen(Phase::running, 1))) << "the run begins";
}

TEST(Restoration, TheReasonIsRestoredFromTheAttemptsEnd) {
  const Restoration restoration({{.state = TrialState::retrying,
                                  .cause = Cause::stopped,
                                  .reason = "by alice",
                                  .details = {.stopper = Stopper::person,
                                              .outputs_fault = "none",
                                              .next = Next::attempt,
                                              .pause = Seconds(5)}},
                                 {.state = TrialState::collecting,
                                  .cause = Cause::error,
                                  .exit_code = 1,
                                  .reason = "exit code 1",
                                  .details = {.next = Next::collect, .next_why = "disk full"}},
                                 {.state = TrialState::collecting}},
                                {});
  const AttemptEnd last = restoration.last_end(0);
  EXPECT_EQ(last.reason, "by alice");
  EXPECT_EQ(details_of(last), (EndDetails{.stopper = Stopper::person, .outputs_fault = "none"}));
  EXPECT_EQ(restoration.end_of(1, false).reason, "exit code 1");
  EXPECT_EQ(restoration.end_of(1, false).as, TrialState::failed);
  EXPECT_EQ(restoration.end_of(2, false).as, TrialState::succeeded);
  EXPECT_EQ(restoration.end_of(2, true).as, TrialState::stopped);
}

TEST(Restoration, DependenciesAreMetAtTheLatestOfTheirTimes) {
  using std::chrono::seconds;
  const Restoration restoration(
      {{.state = TrialState::succeeded, .over_at = k_step_at - seconds(30)},
       {.state = TrialState::running, .ran_at = k_step_at - seconds(20)},
       {.state = TrialState::running, .was_healthy = true, .ran_at = k_step_at - seconds(50)},
       {}},
      {});
  const Plan::Node node{.needs = {{.trial = 0, .condition = Condition::succeeded},
                                  {.trial = 1, .condition = Condition::started}},
                        .needed_by = {}};
  EXPECT_EQ(restoration.met_at(node, k_step_at), k_step_at - seconds(20));
  const Plan::Node healthy{.needs = {{.trial = 2, .condition = Condition::healthy}}, .needed_by = {}};
  EXPECT_EQ(restoration.met_at(healthy, k_step_at), k_step_at) << "the record does not say when";
}

TEST(Restoration, NothingStartsUntilTheFirstListing) {
  Restoration restoration({{.state = TrialState::starting}}, {});
  EXPECT_TRUE(restoration.is_needed());
  EXPECT_TRUE(restoration.has_begun(0));
  EXPECT_FALSE(restoration.awaits_listing());
  restoration.begin();
  EXPECT_TRUE(restoration.is_restoring());
  restoration.add_unsure(0);
  restoration.end();
  EXPECT_FALSE(restoration.is_restoring());
  EXPECT_TRUE(restoration.awaits_listing());
  EXPECT_THAT(restoration.listed(), ElementsAre(0));
  EXPECT_FALSE(restoration.awaits_listing());
  EXPECT_THAT(restoration.listed(), IsEmpty());
  EXPECT_FALSE(Restoration({}, {}).has_begun(0));
}

// ---- SlotRequests and StartQueue

// A queue on an engine with `capacity`; no other run holds slots.
struct Queue : Trials {
  Queue(Experiment of, const char* capacity, const char* memory = "1 GiB")
      : Trials(std::move(of)), slots{.cpus = parse_cpus(capacity), .memory = parse_bytes(memory)} {
    holdings.begin_listing();
  }
  void push(TrialIndex trial) {
    table.set_ready(trial);
    queue.push(trial);
  }
  // Starts the next trial as the planner does. Returns the trial.
  std::optional<TrialIndex> start(std::size_t parallel_max = 0) {
    const auto next = queue.pop(parallel_max, false);
    if (!next) return std::nullopt;
    report(next->trial, TrialState::starting);
    holdings.take(next->trial, next->slots, false);
    return next->trial;
  }
  void end(TrialIndex trial) {
    holdings.give_back(trial);
    report(trial, TrialState::succeeded);
  }

  Slots slots;
  Holdings holdings{slots, {}};
  ServiceRoom room{experiment, plan, slots, {}, Until::ended};
  SlotRequests requests{table, plan, holdings, room, slots, Until::ended};
  StartQueue queue{experiment, plan, table, requests, holdings, room, {}};
};

TEST(StartQueue, StartsTheFirstTrialWhoseSlotsAreFree) {
  Queue it(test::experiment("a=3 b=2 c=1"), "4");
  for (TrialIndex trial = 0; trial < 3; ++trial) it.push(trial);
  EXPECT_EQ(it.start(), 0U);
  EXPECT_EQ(it.start(), 2U) << "b does not fit";
  EXPECT_EQ(it.start(), std::nullopt);
  it.end(0);
  EXPECT_EQ(it.start(), 1U);
}

TEST(StartQueue, StartsByPriority) {
  Queue it(test::experiment("a b^5 c"), "4");
  for (TrialIndex trial = 0; trial < 3; ++trial) it.push(trial);
  EXPECT_EQ(it.start(), 1U);
  EXPECT_EQ(it.start(), 0U);
  EXPECT_EQ(it.start(), 2U);
}

TEST(StartQueue, TheLimitOfLivingAttemptsDoesNotCountServices) {
  Queue it(test::experiment("a b !s"), "4");
  for (TrialIndex trial = 0; trial < 3; ++trial) it.push(trial);
  EXPECT_EQ(it.start(1), 0U);
  EXPECT_EQ(it.start(1), 2U);
  EXPECT_EQ(it.start(1), std::nullopt);
  EXPECT_EQ(it.start(2), 1U);
}

TEST(StartQueue, ATrialThatIsNotReadyLeavesTheQueue) {
  Queue it(test::experiment("a b"), "4");
  it.push(0);
  it.push(1);
  it.report(0, TrialState::blocked);
  EXPECT_EQ(it.start(), 1U);
  EXPECT_EQ(it.start(), std::nullopt);
}

TEST(StartQueue, TheNumberOfOvertakesIsLimited) {
  std::string text = "large=2 long=1";
  constexpr std::size_t k_small = Planner::k_overtakes_max + 2;
  for (std::size_t i = 0; i < k_small; ++i) text += " s" + std::to_string(i) + "=1";
  Queue it(test::experiment(text), "2");
  it.push(1);
  ASSERT_EQ(it.start(), 1U);
  it.push(0);
  for (TrialIndex trial = 2; trial < 2 + k_small; ++trial) it.push(trial);
  for (std::size_t i = 0; i < Planner::k_overtakes_max; ++i) {
    const auto small = it.start();
    ASSERT_TRUE(small) << i;
    ASSERT_GT(*small, 1U);
    it.end(*small);
  }
  EXPECT_EQ(it.start(), std::nullopt) << "the large one has waited long enough";
  it.end(1);
  EXPECT_EQ(it.start(), 0U);
}

TEST(SlotRequests, MemoryGrowsUpToTheMemoryOfTheEngine) {
  Experiment experiment = test::experiment("a");
  experiment.trials[0].slots.memory = parse_bytes("300 MiB");
  experiment.trials[0].retries.grow_memory = 2;
  Queue it(experiment, "4");
  EXPECT_EQ(it.requests.of(0).memory, parse_bytes("300 MiB"));
  it.requests.grow_memory(0, true);
  EXPECT_EQ(it.requests.of(0).memory, parse_bytes("600 MiB"));
  it.requests.grow_memory(0, true);
  EXPECT_EQ(it.requests.of(0).memory, parse_bytes("1 GiB"));
  it.requests.reset(0);
  EXPECT_EQ(it.requests.of(0).memory, parse_bytes("300 MiB"));
}

TEST(SlotRequests, GrownMemoryLeavesTheMemoryOfItsServices) {
  Experiment experiment = test::experiment("!s a<-s:started");
  experiment.trials[0].slots.memory = parse_bytes("256 MiB");
  experiment.trials[1].slots.memory = parse_bytes("512 MiB");
  experiment.trials[1].retries.grow_memory = 2;
  Queue it(experiment, "4");
  it.requests.grow_memory(1, true);
  EXPECT_EQ(it.requests.of(1).memory, parse_bytes("768 MiB"));
}

}  // namespace
}  // namespace combu::schedule
