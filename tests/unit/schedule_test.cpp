// The planner: order, services, interrupts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "schedule_planned.hpp"

namespace combu::test {
namespace {

TEST(Planner, TrialsWithoutDependenciesStartInTheOrderOfTheFile) {
  Planned it("c a b");
  EXPECT_EQ(it.begin(), "start c, start a, start b | c starting, a starting, b starting");
  EXPECT_FALSE(it.done());
}

TEST(Planner, TheLimitOfStartsInFlightIsKept) {
  Planned it("a b c", {.starts_in_flight_max = 2});
  EXPECT_EQ(it.begin(), "start a, start b | a starting, b starting");
  EXPECT_EQ(it.in_flight(), 2U);
  EXPECT_EQ(it.started("b"), "start c | b running, c starting");
  EXPECT_EQ(it.in_flight(), 2U);
}

TEST(Planner, TheRunIsDoneWhenAllTrialsAreStarted) {
  Planned it("a b<-a");
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_EQ(it.started("a"), "start b | a running, b starting");
  EXPECT_FALSE(it.done());
  EXPECT_EQ(it.started("b"), " | b running");
  EXPECT_TRUE(it.done());
}

TEST(Planner, TrialsStartByReadinessAndNotByWaves) {
  Planned it("a b x<-a y<-b z<-x");
  (void)it.begin();
  EXPECT_EQ(it.started("a"), "start x | a running, x starting");
  EXPECT_EQ(it.started("x"), "start z | x running, z starting");
  EXPECT_EQ(it.state("b"), TrialState::starting);
}

TEST(Planner, AStartHasTheTimeAtWhichItsDependenciesWereMet) {
  const Experiment experiment = test::experiment("a b<-a c<-a:succeeded");
  const Plan plan = test::plan(experiment);
  const RunId run("run1");
  const Instant began(std::chrono::seconds(1000));
  const auto ready_at = [](const Step& step, TrialIndex trial) -> std::optional<Instant> {
    for (const Fact& fact : step.facts)
      if (fact.trial == trial && fact.state == TrialState::starting) return fact.ready_at;
    return std::nullopt;
  };
  Planner planner(run, experiment, plan, {});
  EXPECT_EQ(ready_at(planner.step(Begin{}, began), 0), Instant{}) << "it depends on nothing";
  const Instant ran_at = began + std::chrono::seconds(5);
  const Observation seen{
      .key = {.run = run, .trial = "a"}, .experiment = "test", .id = "1", .phase = Phase::running};
  EXPECT_EQ(ready_at(planner.step(StartAnswered{.trial = 0, .result = Running{seen}}, ran_at), 1), ran_at);

  // A later process takes the time from the record.
  const RestoredTrial over{.state = TrialState::succeeded,
                           .was_started = true,
                           .ran_at = ran_at,
                           .over_at = ran_at + std::chrono::seconds(60)};
  Planner later(run, experiment, plan, {.restored = {over, {}, {}}});
  const Instant now = began + std::chrono::hours(1);
  (void)later.step(Begin{}, now);
  const Step step = later.step(Listed{}, now);
  EXPECT_EQ(ready_at(step, 1), over.ran_at);
  EXPECT_EQ(ready_at(step, 2), over.over_at);
}

TEST(Planner, ADependentWaitsForHealth) {
  Planned it("db use<-db:healthy");
  (void)it.begin();
  EXPECT_EQ(it.started("db"), " | db running");
  EXPECT_EQ(it.health("db", Health::starting), " | ");
  EXPECT_EQ(it.health("db", Health::healthy), "start use | db healthy, use starting");
  EXPECT_EQ(it.health("db", Health::healthy), " | ");
}

TEST(Planner, AnUnhealthyTrialBlocksOnlyDependentsThatWaitForHealth) {
  Planned it("db use<-db:healthy other<-db");
  (void)it.begin();
  (void)it.started("db");
  EXPECT_EQ(it.health("db", Health::unhealthy),
            " | use blocked (depends on `db`, which did not become healthy)");
  EXPECT_EQ(it.state("other"), TrialState::starting);
}

TEST(Planner, AnEndBeforeHealthBlocksDependents) {
  Planned it("db use<-db:healthy");
  (void)it.begin();
  (void)it.started("db");
  EXPECT_EQ(it.ended("db", 0),
            " | db succeeded, use blocked (depends on `db`, which did not become healthy)");
  EXPECT_TRUE(it.done());
}

TEST(Planner, AFailedTrialMeetsFinishedButNotSucceeded) {
  Planned it("a s<-a:succeeded f<-a:finished");
  (void)it.begin();
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 3),
            "collect a, start f | a failed (exit code 3), s blocked (depends on `a`, which did not succeed), "
            "f starting");
}

TEST(Planner, TheReasonOfABlockedTrialNamesTheRoot) {
  Planned it("a b<-a c<-b d<-c");
  (void)it.begin();
  EXPECT_EQ(it.not_started("a"),
            " | a failed (could not be started: port is taken), "
            "b blocked (depends on `a`, which was not started), "
            "c blocked (depends on `b`, which is blocked by `a`), "
            "d blocked (depends on `c`, which is blocked by `a`)");
  EXPECT_TRUE(it.done());
}

TEST(Planner, AFailureBlocksOnlyItsDependents) {
  Planned it("a b<-a c d<-c", {.starts_in_flight_max = 1});
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_EQ(it.not_started("a"),
            "start c | a failed (could not be started: port is taken), "
            "b blocked (depends on `a`, which was not started), c starting");
  EXPECT_EQ(it.started("c"), "start d | c running, d starting");
}

TEST(Planner, EventsMayComeBeforeTheAnswer) {
  Planned it("a b<-a c<-a:succeeded");
  (void)it.begin();
  EXPECT_EQ(it.running("a"), "start b | a running, b starting");
  EXPECT_EQ(it.in_flight(), 2U);
  EXPECT_EQ(it.ended("a", 0), "start c | a succeeded, c starting");
  EXPECT_EQ(it.started("a"), " | ");
  EXPECT_EQ(it.in_flight(), 2U);
  EXPECT_EQ(it.state("a"), TrialState::succeeded);
}

TEST(Planner, AnEndThatIsObservedFirstImpliesTheStart) {
  Planned it("a b<-a");
  (void)it.begin();
  EXPECT_EQ(it.ended("a", 0), "start b | a running, a succeeded, b starting");
}

TEST(Planner, ALostAnswerDoesNotFailARunningTrial) {
  Planned it("a");
  (void)it.begin();
  (void)it.running("a");
  EXPECT_EQ(it.not_started("a"), " | ");
  EXPECT_EQ(it.state("a"), TrialState::running);
}

TEST(Planner, ACreatedAttemptCountsAsStartedOnlyWhenItRuns) {
  Planned it("a b<-a");
  (void)it.begin();
  EXPECT_EQ(it.accepted("a"), " | ");
  EXPECT_FALSE(it.done());
  EXPECT_EQ(it.running("a"), "start b | a running, b starting");
}

TEST(Planner, LateAndForeignObservationsHaveNoEffect) {
  Planned it("a b<-a:succeeded", k_wait);
  (void)it.begin();
  (void)it.started("a");
  Observation stranger = it.observation("a", Phase::ended);
  stranger.key.run = RunId("other");
  stranger.exit_code = 0;
  EXPECT_EQ(it.seen(stranger), " | ");
  stranger = it.observation("a", Phase::gone);
  stranger.key.trial = "nobody";
  EXPECT_EQ(it.seen(stranger), " | ");
  (void)it.ended("a", 1);
  EXPECT_EQ(it.running("a"), " | ");
  EXPECT_EQ(it.ended("a", 0), " | ");
  EXPECT_EQ(it.state("a"), TrialState::failed);
  EXPECT_EQ(it.seen(it.observation("b", Phase::created)), " | ");
}

TEST(Planner, AListingShowsMissedEvents) {
  Planned it("a b c<-a:succeeded", k_wait);
  (void)it.begin();
  (void)it.started("a");
  (void)it.started("b");
  (void)it.listing_begins();
  Observation ended = it.observation("a", Phase::ended);
  ended.exit_code = 0;
  EXPECT_EQ(it.listed({ended}),
            "start c | a succeeded, b stopped (the container was removed while the attempt ran), c starting");
}

TEST(Planner, AListingRequestedBeforeAStartMayLackTheAttempt) {
  Planned it("a");
  (void)it.begin();
  (void)it.listing_begins();
  (void)it.started("a");
  EXPECT_EQ(it.listed({}), " | ");
  EXPECT_EQ(it.state("a"), TrialState::running);
}

TEST(Planner, ATrialWhoseContainerIsRemovedIsStopped) {
  Planned it("a", k_wait);
  (void)it.begin();
  (void)it.started("a");
  EXPECT_EQ(it.gone("a"), " | a stopped (the container was removed while the attempt ran)");
}

TEST(Planner, UntilEndedWaitsForAllTrials) {
  Planned it("a b", k_wait);
  (void)it.begin();
  (void)it.started("a");
  (void)it.started("b");
  EXPECT_FALSE(it.done());
  (void)it.ended("b", 0);
  EXPECT_FALSE(it.done());
  (void)it.ended("a", 0);
  EXPECT_TRUE(it.done());
}

TEST(Planner, AServiceIsStoppedWhenItsLastUserIsOver) {
  Planned it("!db a<-db b<-db", k_wait);
  (void)it.begin();
  (void)it.started("db");
  (void)it.started("a");
  (void)it.started("b");
  EXPECT_EQ(it.ended("a", 0), " | a succeeded");
  EXPECT_EQ(it.ended("b", 1), "collect b, stop db | b failed (exit code 1)");
  EXPECT_EQ(it.collected("b"), " | ");
  EXPECT_EQ(it.ended("db", 143), " | db stopped");
  EXPECT_FALSE(it.done()) << "the engine has not answered";
  (void)it.stopped("db");
  EXPECT_TRUE(it.done());
}

TEST(Planner, AServiceWithoutDependentsRunsUntilTheWorkIsDone) {
  Planned it("!log a", k_wait);
  (void)it.begin();
  (void)it.started("log");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 0), "stop log | a succeeded");
}

TEST(Planner, AServiceThatEndsByItselfHasFailed) {
  Planned it("!db a<-db", k_wait);
  (void)it.begin();
  (void)it.started("db");
  EXPECT_EQ(it.ended("db", 1), "collect db | db failed (exit code 1)");
}

TEST(Planner, AServiceThatCannotBeStoppedFailsAndTheRunIsDone) {
  Planned it("!db a<-db", k_wait);
  (void)it.begin();
  (void)it.started("db");
  (void)it.started("a");
  (void)it.ended("a", 0);
  EXPECT_EQ(it.not_stopped("db"), " | db failed (could not be stopped: no)");
  EXPECT_TRUE(it.done());
}

TEST(Planner, AServiceWhoseUsersAreBlockedIsStoppedOnceItRuns) {
  Planned it("a !db use<-a:succeeded,db", k_wait);
  (void)it.begin();
  (void)it.started("a");
  (void)it.ended("a", 1);
  EXPECT_EQ(it.started("db"), "stop db | db running");
}

TEST(Planner, AServiceWithoutUsersIsNotStarted) {
  Planned it("!first !second<-first:healthy a", k_wait);
  (void)it.begin();
  (void)it.started("first");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 0), "stop first | a succeeded, second stopped");
  (void)it.stopped("first");
  EXPECT_EQ(it.ended("first", 143), " | first stopped");
  EXPECT_TRUE(it.done());
}

TEST(Planner, ATrialThatServesOthersButIsNoServiceKeepsRunning) {
  Planned it("db a<-db b<-db:healthy", k_wait);
  (void)it.begin();
  (void)it.started("db");
  (void)it.started("a");
  (void)it.health("db", Health::healthy);
  (void)it.started("b");
  (void)it.ended("a", 0);
  EXPECT_FALSE(it.done());
  EXPECT_EQ(it.ended("b", 0), " | b succeeded");
  EXPECT_TRUE(it.done());
  EXPECT_EQ(it.state("db"), TrialState::running);
}

TEST(Planner, AServiceThatRunsWhenTheWorkIsDoneAlreadyIsStopped) {
  Planned it("!log a", k_wait);
  (void)it.begin();
  (void)it.started("a");
  (void)it.ended("a", 0);
  EXPECT_EQ(it.started("log"), "stop log | log running");
}

TEST(Planner, TheRunWaitsForATrialWhoseEndOthersNeed) {
  Planned it("a s<-a:succeeded c<-a d s2<-d:succeeded,a:succeeded", k_wait);
  (void)it.begin();
  (void)it.started("a");
  (void)it.started("d");
  (void)it.started("c");
  (void)it.ended("c", 0);
  (void)it.ended("a", 1);
  (void)it.collected("a");
  EXPECT_FALSE(it.done()) << "d runs, though what needs it is blocked";
  (void)it.ended("d", 0);
  EXPECT_TRUE(it.done());
}

TEST(Planner, WithUntilStartedNoServiceIsStopped) {
  Planned it("!db a<-db");
  (void)it.begin();
  (void)it.started("db");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 0), " | a succeeded");
}

TEST(Planner, NothingStartsAfterAnInterrupt) {
  Planned it("a b c<-a", {.starts_in_flight_max = 1});
  (void)it.begin();
  EXPECT_EQ(it.interrupt(), " | ");
  EXPECT_FALSE(it.done());
  EXPECT_EQ(it.started("a"), " | a running");
  EXPECT_TRUE(it.done());
  EXPECT_EQ(it.state("b"), TrialState::ready);
}

TEST(Planner, AStartThatAnInterruptedRunGivesUpHasNotFailed) {
  Planned it("a b<-a", {.starts_in_flight_max = 1});
  (void)it.begin();
  (void)it.interrupt();
  EXPECT_EQ(it.start_given_up("a"), " | ");
  EXPECT_TRUE(it.done());
  EXPECT_EQ(it.state("a"), TrialState::starting) << "a later process starts it again";
}

TEST(Planner, ALongChainIsBlockedWithoutRecursion) {
  Experiment experiment{.name = "chain"};
  constexpr TrialIndex count = 100'000;
  for (TrialIndex i = 0; i < count; ++i) {
    Trial trial{.name = fmt::format("t{}", i), .image = "image"};
    if (i > 0) trial.depends.push_back({.trial = fmt::format("t{}", i - 1)});
    experiment.trials.push_back(std::move(trial));
  }
  const Plan plan = test::plan(experiment);
  Planner planner(RunId("r1"), experiment, plan, {});
  (void)planner.step(Begin{}, {});
  const Step step = planner.step(StartFailed{.trial = 0, .error = Error(ErrorKind::refused, "", "no")}, {});
  EXPECT_EQ(step.facts.size(), count);
  EXPECT_EQ(step.facts.back().root, 0U);
  EXPECT_TRUE(planner.done());
}

TEST(Planner, TheHighestPriorityStartsFirst) {
  Planned it("a b^1 c^-1 d^1", {.starts_in_flight_max = 1});
  EXPECT_EQ(it.begin(), "start b | b starting");
  EXPECT_EQ(it.started("b"), "start d | b running, d starting");
  EXPECT_EQ(it.started("d"), "start a | d running, a starting");
  EXPECT_EQ(it.started("a"), "start c | a running, c starting");
}

TEST(Planner, ParallelMaxDoesNotCountServices) {
  Experiment experiment = test::experiment("!cache a<-cache b c");
  experiment.parallel_max = 2;
  Planned it(experiment);
  EXPECT_EQ(it.begin(), "start cache, start b, start c | cache starting, b starting, c starting");
  EXPECT_EQ(it.started("cache"), " | cache running");
  EXPECT_EQ(it.ended("b", 1), "collect b, start a | b running, b failed (exit code 1), a starting");
}

std::string random_order(std::uint64_t seed) {
  Experiment experiment = test::experiment("a b c d e f g h i j");
  experiment.order = Order::random;
  experiment.seed = seed;
  return Planned(experiment, {.starts_in_flight_max = 10}).begin();
}

TEST(Planner, ARandomOrderIsRepeatedByItsSeed) {
  EXPECT_EQ(random_order(1), random_order(1));
  EXPECT_NE(random_order(1), random_order(2));
  EXPECT_EQ(random_order(1).size(), random_order(2).size());
}

TEST(Planner, AStoppedTrialHasNotSucceeded) {
  Planned it("a");
  (void)it.begin();
  (void)it.started("a");
  Observation seen = it.observation("a", Phase::ended);
  seen.exit_code = 0;
  seen.stopped = true;
  EXPECT_EQ(it.seen(seen), "collect a | a stopped (stopped from outside (exit code 0))");
}

TEST(Planner, TheRunWaitsForATrialWithRetriesThatServesOthers) {
  Experiment experiment = test::experiment("a b<-a");
  experiment.trials[0].retries.max = 1;
  experiment.trials[0].retries.on.set();
  Planned it(experiment, k_wait);
  (void)it.begin();
  (void)it.started("a");
  (void)it.started("b");
  (void)it.ended("b", 0);
  EXPECT_FALSE(it.done());
}

TEST(Planner, AServiceIsNotRetriedWhenTheWorkIsDone) {
  Experiment experiment = test::experiment("!db a<-db");
  experiment.trials[0].retries.max = 1;
  experiment.trials[0].retries.on.set();
  Planned it(experiment, k_wait);
  (void)it.begin();
  (void)it.started("db");
  (void)it.started("a");
  (void)it.ended("db", 1);
  (void)it.collected("db");
  EXPECT_EQ(it.ended("a", 0),
            " | a succeeded, db stopped (exit code 1; not retried: no trial needs this service any more)");
  EXPECT_TRUE(it.done());
}

TEST(Planner, StartsInFlightMayStartMoreAfterAnInterrupt) {
  Planned it("a b", {.starts_in_flight_max = 1});
  (void)it.begin();
  (void)it.interrupt();
  EXPECT_TRUE(it.may_start_more());
  (void)it.started("a");
  EXPECT_FALSE(it.may_start_more());
}

TEST(Planner, AServiceOfATrialThatKeepsRunningKeepsRunning) {
  Planned it("!db cache<-db work<-cache", k_wait);
  (void)it.begin();
  (void)it.started("db");
  (void)it.started("cache");
  (void)it.started("work");
  EXPECT_EQ(it.ended("work", 0), " | work succeeded");
  EXPECT_TRUE(it.done());
  EXPECT_EQ(it.state("db"), TrialState::running);
  EXPECT_EQ(it.state("cache"), TrialState::running);
}

TEST(Interrupted, AFailedTrialIsRetriedByTheNextProcess) {
  Planned it(with_retries("a b<-a:succeeded", {.max = 2}));
  (void)it.begin();
  (void)it.started("a");
  (void)it.interrupt();
  EXPECT_EQ(it.ended("a", 3), "collect a | a retrying (exit code 3; attempt 2 in 1.0 s)");
  (void)it.collected("a");
  EXPECT_EQ(it.pass(60), " | ");
  EXPECT_TRUE(it.done());
  EXPECT_EQ(it.state("b"), TrialState::waiting);
}

TEST(Planner, AServiceRemovedDuringItsStopIsStopped) {
  Planned it("!s a<-s", k_wait);
  (void)it.begin();
  (void)it.started("s");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 0), "stop s | a succeeded");
  EXPECT_EQ(it.gone("s"), " | s stopped");
}

TEST(Planner, AServiceThatIsNotRetriedKeepsTheEndOfItsLastAttempt) {
  Experiment experiment = with_retries("!db a<-db", {.max = 2});
  Planned it(experiment, k_wait);
  (void)it.begin();
  (void)it.started("db");
  (void)it.started("a");
  (void)it.ended("db", 7);
  (void)it.collected("db");
  (void)it.ended("a", 0);
  EXPECT_EQ(it.fact("db").state, TrialState::stopped);
  EXPECT_EQ(it.fact("db").attempt, 1);
  EXPECT_EQ(it.fact("db").cause, Cause::error);
  EXPECT_EQ(it.fact("db").exit_code, 7);
}

TEST(Planner, TheRunWaitsNeitherForServicesNorForTrialsThatServeOthers) {
  const Experiment experiment = test::experiment("!s loader work<-loader");
  const Plan plan = test::plan(experiment);
  const Planner planner(RunId("run1"), experiment, plan, k_wait);
  EXPECT_FALSE(planner.is_waited_for(0));
  EXPECT_FALSE(planner.is_waited_for(1));
  EXPECT_TRUE(planner.is_waited_for(2));
}

TEST(Planner, TheRunIsNotDoneWhileOneTrialIsReadyAndAnotherWaits) {
  Planned it("a b<-a:succeeded");
  (void)it.pause();
  (void)it.begin();
  EXPECT_FALSE(it.done());
  EXPECT_TRUE(it.may_start_more());
}

TEST(Planner, AnUnrequestedInspectionHasNoEffect) {
  Planned it("a");
  (void)it.begin();
  (void)it.started("a");
  EXPECT_EQ(it.looked(it.observation("a", Phase::ended)), " | ");
  EXPECT_EQ(it.looked(it.observation("a", Phase::ended, 2)), " | ");
  EXPECT_EQ(it.state("a"), TrialState::running);
}

TEST(Planner, AnAttemptThatIsGoneWhenInspectedWasRemoved) {
  Planned it("a");
  (void)it.begin();
  (void)it.started("a");
  Observation ended = it.observation("a", Phase::ended);
  ended.exit_code = 0;
  ended.ended_at.reset();
  EXPECT_EQ(it.listed({ended}), "look at a | ");
  EXPECT_EQ(it.looked(it.observation("a", Phase::gone)),
            " | a stopped (the container was removed while the attempt ran)");
}

TEST(Planner, ACancelledStartFailsTheTrialWithoutAnInterrupt) {
  Planned it("a b");
  (void)it.begin();
  EXPECT_EQ(it.start_given_up("a"), " | a failed (could not be started: cancelled)");
  (void)it.interrupt();
  EXPECT_EQ(it.not_started("b"), " | b failed (could not be started: port is taken)");
}

}  // namespace
}  // namespace combu::test
