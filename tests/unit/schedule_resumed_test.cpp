// The planner: a later process continues a run.
#include <gtest/gtest.h>

#include <utility>

#include "schedule_planned.hpp"

namespace combu::test {
namespace {

TEST(GoingOn, ARetryThatWaitedForSlotsIsStarted) {
  Planned it(with_retries("a", {.max = 1}),
             {.restored = {
                  {.state = TrialState::ready, .cause = Cause::error, .exit_code = 1, .was_started = true}}});
  (void)it.begin();
  EXPECT_EQ(it.listed({}), "start a#2 | a starting");
}

TEST(GoingOn, NothingStartsBeforeAListing) {
  Planned planned("a b<-a", {.restored = {{}, {}}});
  EXPECT_EQ(planned.begin(), " | ");
  EXPECT_FALSE(planned.done());
  EXPECT_EQ(planned.listed({}), "start a | a starting");
}

TEST(GoingOn, TrialsThatAreOverStayOverAndTheirDependentsStart) {
  Planned planned("a b c<-a:succeeded d<-b:succeeded",
                  {.restored = {{.state = TrialState::succeeded, .was_started = true},
                                {.state = TrialState::failed, .cause = Cause::error, .was_started = true},
                                {},
                                {}}});
  EXPECT_EQ(planned.begin(), " | d blocked (depends on `b`, which did not succeed)");
  EXPECT_EQ(planned.listed({}), "start c | c starting");
}

TEST(GoingOn, RunningTrialsGetTheirStateFromTheListing) {
  const RestoredTrial ran{.state = TrialState::running, .was_started = true};
  Planned planned("a b c", {.restored = {ran, ran, ran}});
  Observation ended = planned.observation("b", Phase::ended);
  ended.exit_code = 7;
  EXPECT_EQ(planned.begin(), " | ");
  (void)planned.listing_begins();
  EXPECT_EQ(planned.listed({planned.observation("a", Phase::running), ended}),
            "collect b | b failed (exit code 7), c stopped (its container no longer exists, and its end was "
            "not recorded)");
  EXPECT_EQ(planned.state("a"), TrialState::running);
}

TEST(GoingOn, AnAttemptKilledWhileNothingWatchedIsLost) {
  Planned planned("a", {.restored = {{.state = TrialState::running, .was_started = true}}});
  Observation ended = planned.observation("a", Phase::ended);
  ended.exit_code = 137;
  (void)planned.begin();
  (void)planned.listing_begins();
  EXPECT_EQ(planned.listed({ended}),
            "collect a | a failed (lost with its host or engine (exit code 137, SIGKILL))");
}

TEST(GoingOn, NoAttemptIsLostIfTheEngineDidNotRestart) {
  const Instant ran_at = Instant{} + std::chrono::hours(1);
  const RestoredTrial running{.state = TrialState::running, .was_started = true, .ran_at = ran_at};
  for (const bool was_there : {true, false}) {
    Planned planned(
        "a", {.restored = {running}, .engine_began_at = ran_at + std::chrono::seconds(was_there ? -1 : 1)});
    Observation ended = planned.observation("a", Phase::ended);
    ended.exit_code = 137;
    (void)planned.begin();
    EXPECT_EQ(planned.listed({ended}),
              was_there ? "collect a | a failed (exit code 137, SIGKILL)"
                        : "collect a | a failed (lost with its host or engine (exit code 137, SIGKILL))");
  }
  // The earlier process was waiting for a verdict when it died.
  RestoredTrial stopped = running;
  stopped.state = TrialState::retrying;
  stopped.cause = Cause::stopped;
  stopped.exit_code = 143;
  for (const bool was_there : {true, false}) {
    Planned planned(
        with_retries("a", {.max = 1}),
        {.restored = {stopped}, .engine_began_at = ran_at + std::chrono::seconds(was_there ? -1 : 1)});
    EXPECT_EQ(planned.begin(),
              was_there ? " | a stopped (stopped from outside (exit code 143, SIGTERM))" : " | ");
    EXPECT_EQ(planned.listed({}), was_there ? " | " : "start a#2 | a starting");
  }
}

TEST(GoingOn, AnAttemptThatEndedInTimeWhileNothingWatchedSucceeds) {
  Experiment experiment = test::experiment("a");
  experiment.trials[0].timeout = Seconds(10);
  Planned planned(experiment, {.restored = {{.state = TrialState::running,
                                             .was_started = true,
                                             .ran_at = Instant{} - std::chrono::hours(1)}}});
  EXPECT_EQ(planned.begin(), " | ");
  Observation ended = planned.observation("a", Phase::ended);
  ended.exit_code = 0;
  EXPECT_EQ(planned.listed({ended}), " | a succeeded");
}

TEST(GoingOn, TheEngineMayHaveALaterAttemptThanTheRecord) {
  const RestoredTrial running{.state = TrialState::running, .was_started = true};
  for (const Phase phase : {Phase::running, Phase::ended}) {
    Planned planned("a", {.restored = {running}});
    (void)planned.begin();
    Observation later = planned.observation("a", phase, 2);
    if (phase == Phase::ended) later.exit_code = 0;
    EXPECT_EQ(planned.listed({later}),
              phase == Phase::running
                  ? " | a retrying (the attempt's end was not recorded), a starting, a running"
                  : " | a retrying (the attempt's end was not recorded), a starting, a running, "
                    "a succeeded");
  }
}

RestoredTrial departure(Departure how) {
  return {.state = TrialState::running, .was_started = true, .departure = how};
}

TEST(GoingOn, RemovedAndReplacedTrialsAreStoppedWhileOthersGoOn) {
  Planned planned("a b c<-b d",
                  {.restored = {departure(Departure::removed), departure(Departure::replaced), {}, {}}});
  EXPECT_EQ(planned.begin(), "stop a, stop b | ");
  EXPECT_EQ(
      planned.listed({planned.observation("a", Phase::running), planned.observation("b", Phase::running)}),
      "start d | d starting");
  EXPECT_EQ(planned.ended("a", 0), " | a stopped (removed from the file)");
  EXPECT_EQ(planned.started("d"), " | d running");
  EXPECT_FALSE(planned.done());
  // The condition counts only when the new attempt runs.
  EXPECT_EQ(planned.ended("b", 143),
            "start b#2 | b retrying (replaced by its new definition in the file), b starting");
  EXPECT_EQ(planned.started("b"), "start c | b running, c starting");
}

TEST(GoingOn, ADepartingAttemptThatEndedHasNotFailed) {
  Planned planned("a b", {.restored = {departure(Departure::removed), departure(Departure::replaced)}});
  EXPECT_EQ(planned.begin(), "stop a, stop b | ");
  Observation ended = planned.observation("b", Phase::ended);
  ended.exit_code = 3;
  (void)planned.listing_begins();
  EXPECT_EQ(planned.listed({ended}),
            "start b#2 | b retrying (replaced by its new definition in the file), a stopped (removed from "
            "the file), "
            "b starting");
}

TEST(GoingOn, AReplacedTrialWaitsForItsNewDependencies) {
  for (const bool succeeds : {true, false}) {
    Planned planned("a b<-a:succeeded", {.restored = {{}, departure(Departure::replaced)}});
    EXPECT_EQ(planned.begin(), "stop b | ");
    EXPECT_EQ(planned.listed({planned.observation("b", Phase::running)}), "start a | a starting");
    (void)planned.started("a");
    if (!succeeds) (void)planned.ended("a", 1);
    EXPECT_EQ(planned.ended("b", 143), succeeds
                                           ? " | b retrying (replaced by its new definition in the file)"
                                           : " | b retrying (replaced by its new definition in the file), "
                                             "b blocked (depends on `a`, which did not succeed)");
    if (succeeds) {
      EXPECT_EQ(planned.ended("a", 0), "start b#2 | a succeeded, b starting");
    }
  }
}

TEST(GoingOn, AReplacedTrialThatCannotBeStoppedFails) {
  Planned planned("a", {.restored = {departure(Departure::replaced)}});
  (void)planned.begin();
  (void)planned.listed({planned.observation("a", Phase::running)});
  EXPECT_EQ(planned.not_stopped("a", 1),
            " | a failed (replaced by its new definition in the file, and could not be stopped: no)");
  EXPECT_FALSE(planned.may_start_more());
}

TEST(GoingOn, TheNextTrialIsTheCanaryIfTheCanaryIsReplaced) {
  Experiment experiment = test::experiment("a b");
  experiment.canary = true;
  Planned planned(std::move(experiment), {.restored = {departure(Departure::replaced), {}}});
  (void)planned.begin();
  EXPECT_EQ(planned.listed({planned.observation("a", Phase::running)}), "start b | b starting");
  planned.started("b");
  EXPECT_EQ(planned.ended("a", 143), " | a retrying (replaced by its new definition in the file)");
  EXPECT_EQ(planned.ended("b", 0), "start a#2 | b succeeded, a starting");
}

TEST(GoingOn, AStartThatIsNotInTheListingIsRepeated) {
  const RestoredTrial starting{.state = TrialState::starting};
  Planned planned("a b", {.restored = {starting, starting}});
  (void)planned.begin();
  EXPECT_EQ(planned.listed({planned.observation("b", Phase::running)}),
            "start a | b running, a ready, a starting");
}

TEST(GoingOn, AStartIsNotRepeatedAfterTheDeadline) {
  Experiment experiment = test::experiment("a");
  experiment.deadline = Seconds(10);
  Planned planned(std::move(experiment), {.restored = {{.state = TrialState::starting}},
                                          .began_at = Instant{} - std::chrono::seconds(11)});
  EXPECT_EQ(planned.begin(), " | ");
  EXPECT_EQ(planned.listed({}),
            " | a ready, a blocked (not started: the run's deadline of 10.0 s has passed)");
  EXPECT_TRUE(planned.done());
}

TEST(GoingOn, SpentRetriesStaySpent) {
  Experiment experiment = test::experiment("a");
  experiment.trials[0].retries.max = 2;
  experiment.trials[0].retries.on.set();
  Planned planned(std::move(experiment), {.restored = {{.state = TrialState::running,
                                                        .attempt = 3,
                                                        .was_started = true,
                                                        .earlier = {Cause::error, Cause::error}}}});
  (void)planned.begin();
  Observation ended = planned.observation("a", Phase::ended, 3);
  ended.exit_code = 1;
  EXPECT_EQ(planned.listed({ended}), "collect a#3 | a failed (exit code 1, after 3 attempts)");
}

TEST(GoingOn, TheTimeoutCountsFromTheBeginningOnRecord) {
  Experiment experiment = test::experiment("a");
  experiment.trials[0].timeout = Seconds(10);
  const Instant began{};
  Planned planned(std::move(experiment), {.restored = {{.state = TrialState::running,
                                                        .was_started = true,
                                                        .ran_at = began - std::chrono::seconds(4)}}});
  (void)planned.begin();
  (void)planned.listed({planned.observation("a", Phase::running)});
  EXPECT_EQ(planned.pass(5), " | ");
  EXPECT_EQ(planned.pass(2), "stop a | a running (timeout)");
}

TEST(GoingOn, FactsOfAListingHaveTheTimesOfTheEngine) {
  const Experiment experiment = test::experiment("a b");
  const Plan plan = test::plan(experiment);
  Planner planner(RunId("run"), experiment, plan, {});
  (void)planner.step(Begin{}, at(1));
  const Observation a{.key = {.run = RunId("run"), .trial = "a"}, .phase = Phase::running, .ran_at = at(3)};
  EXPECT_EQ(planner.step(StartAnswered{.trial = 0, .result = Running{a}}, at(5)).facts.at(0).at, at(3));
  Observation over = a;
  over.phase = Phase::ended;
  over.exit_code = 0;
  over.ended_at = at(4);
  (void)planner.step(ListingBegins{}, at(20));
  EXPECT_EQ(planner.step(Listed{{over}}, at(20)).facts.at(0).at, at(4));
  // The engine's clock may differ: times are limited to the interval from the trial's last fact to now.
  Observation b{.key = {.run = RunId("run"), .trial = "b"}, .phase = Phase::running, .ran_at = at(0)};
  EXPECT_EQ(planner.step(StartAnswered{.trial = 1, .result = Running{b}}, at(21)).facts.at(0).at, at(1));
  b.phase = Phase::ended;
  b.exit_code = 0;
  b.ended_at = at(100);
  EXPECT_EQ(planner.step(Observed{b}, at(22)).facts.at(0).at, at(22));
}

TEST(GoingOn, AServiceThatWasHealthyCountsAsHealthy) {
  for (const bool was_healthy : {true, false}) {
    Planned planned(
        "db use<-db:healthy",
        {.restored = {{.state = TrialState::running, .was_started = true, .was_healthy = was_healthy}, {}}});
    (void)planned.begin();
    EXPECT_EQ(planned.listed({planned.observation("db", Phase::running)}),
              was_healthy ? "start use | use starting" : " | ");
  }
}

TEST(GoingOn, ARunningTrialKeepsRunningAfterItsDependencyFailed) {
  Planned planned("a b<-a:succeeded", {.restored = {{.state = TrialState::failed, .cause = Cause::error},
                                                    {.state = TrialState::running, .was_started = true}}});
  EXPECT_EQ(planned.begin(), " | ");
  EXPECT_EQ(planned.listed({planned.observation("b", Phase::running)}), " | ");
  EXPECT_EQ(planned.state("b"), TrialState::running);
}

TEST(GoingOn, DependentsOfABlockedTrialHaveTheSameRoot) {
  Planned planned("a b<-a:succeeded c<-b:succeeded",
                  {.restored = {{.state = TrialState::failed, .cause = Cause::error},
                                {.state = TrialState::blocked, .root = 0},
                                {}}});
  EXPECT_EQ(planned.begin(), " | c blocked (depends on `b`, which is blocked by `a`)");
}

TEST(GoingOn, FailuresOfEarlierProcessesCount) {
  Experiment experiment = test::experiment("a b");
  experiment.failures_max = 1;
  Planned planned(std::move(experiment),
                  {.restored = {{.state = TrialState::failed, .cause = Cause::error}, {}}});
  EXPECT_EQ(planned.begin(),
            " | b blocked (not started: 1 trial has failed, which is the limit (max_failures))");
}

RestoredTrial retrying(Cause cause, int exit_code, const std::string& reason) {
  return {.state = TrialState::retrying,
          .cause = cause,
          .exit_code = exit_code,
          .reason = reason,
          .details = {.next = Next::attempt, .pause = Seconds(1)},
          .was_started = true,
          .ran_at = at(0)};
}

TEST(GoingOn, ARetryThatWasDueIsSpent) {
  const RestoredTrial failed = retrying(Cause::error, 1, "exit code 1");
  Planned planned(with_retries("a", {.max = 1}), {.restored = {failed}, .engine_began_at = at(-1)});
  EXPECT_EQ(planned.begin(), " | ");
  EXPECT_EQ(planned.listed({}), "start a#2 | a starting");
  (void)planned.started("a");
  EXPECT_EQ(planned.ended("a", 1), "collect a#2 | a failed (exit code 1, after 2 attempts)");
}

TEST(GoingOn, AnAttemptThatWasLostWithTheEngineSpendsNoRetry) {
  const RestoredTrial stopped =
      retrying(Cause::stopped, 143, "stopped from outside (exit code 143, SIGTERM)");
  Planned planned(with_retries("a", {.max = 1}), {.restored = {stopped}, .engine_began_at = at(1)});
  (void)planned.begin();
  EXPECT_EQ(planned.listed({}), "start a#2 | a starting");
  (void)planned.started("a");
  EXPECT_EQ(planned.ended("a", 1), "collect a#2 | a retrying (exit code 1; attempt 3 in 1.0 s)");
}

TEST(GoingOn, AStoppedRetryKeepsTheReasonOfTheLastAttempt) {
  const RestoredTrial failed = retrying(Cause::error, 1, "exit code 1");
  Planned planned(with_retries("a", {.max = 1}), {.restored = {failed}});
  (void)planned.begin();
  EXPECT_EQ(planned.adjust({.stopping = {"a"}, .stopper = "alice"}),
            " | a failed (exit code 1; not retried: stopped by alice with `combu stop`)");
  EXPECT_EQ(planned.fact("a").attempt, 1);
}

TEST(GoingOn, AnAttemptThatBeganWithTheEngineIsNotLost) {
  Planned planned("a", {.restored = {{.state = TrialState::running, .was_started = true, .ran_at = at(5)}},
                        .engine_began_at = at(5)});
  (void)planned.begin();
  Observation ended = planned.observation("a", Phase::ended);
  ended.exit_code = 137;
  EXPECT_EQ(planned.listed({ended}), "collect a | a failed (exit code 137, SIGKILL)");
}

TEST(GoingOn, AnAttemptThatWasBeingStoppedIsStoppedAgain) {
  Experiment experiment = test::experiment("a");
  experiment.trials[0].start_deadline = Seconds(10);
  Planned planned(std::move(experiment), {.restored = {{.state = TrialState::running,
                                                        .was_started = true,
                                                        .ran_at = at(0),
                                                        .stop_cause = Cause::start_deadline}}});
  EXPECT_EQ(planned.begin(), "stop a | ");
  EXPECT_EQ(planned.listed({planned.observation("a", Phase::running)}), " | ");
  (void)planned.stopped("a", 1);
  EXPECT_FALSE(planned.done()) << "it runs still";
  EXPECT_EQ(planned.ended("a", 143),
            "collect a | a failed (did not run within its start_deadline of 10.0 s)");
  (void)planned.collected("a");
  EXPECT_TRUE(planned.done());
}

// The engine may not report when the attempt began.
TEST(GoingOn, TheRecordHasTheTimeAtWhichAnAttemptBegan) {
  Experiment experiment = test::experiment("a");
  experiment.trials[0].timeout = Seconds(10);
  Planned planned(std::move(experiment), {.restored = {{.state = TrialState::running,
                                                        .was_started = true,
                                                        .ran_at = at(-20),
                                                        .stop_cause = Cause::timeout}}});
  (void)planned.begin();
  Observation ended = planned.observation("a", Phase::ended);
  ended.exit_code = 0;
  ended.ended_at = at(-15);
  EXPECT_EQ(planned.listed({ended}), " | a succeeded");
}

TEST(GoingOn, AnEndIsNotBeforeTheBeginningOnRecord) {
  Planned planned("a",
                  {.restored = {{.state = TrialState::running, .was_started = true, .ran_at = at(-20)}}});
  (void)planned.begin();
  Observation ended = planned.observation("a", Phase::ended);
  ended.exit_code = 0;
  ended.ended_at = at(-30);
  EXPECT_EQ(planned.listed({ended}), " | a succeeded");
  EXPECT_EQ(planned.fact("a").at, at(-20));
}

TEST(GoingOn, ALaterAttemptHoldsTheSlotsOfTheEarlierOne) {
  const RestoredTrial running{.state = TrialState::running, .was_started = true};
  Planned planned("a=2 b=2", {.capacity = Planned::cpus("2"), .restored = {running, {}}});
  (void)planned.begin();
  Observation later = planned.observation("a", Phase::running, 2);
  later.slots = Planned::cpus("2");
  EXPECT_EQ(planned.listed({later}),
            " | a retrying (the attempt's end was not recorded), a starting, a running");
  EXPECT_EQ(planned.held(), Planned::cpus("2"));
  Observation ended = planned.observation("a", Phase::ended, 2);
  ended.exit_code = 0;
  EXPECT_EQ(planned.seen(ended), "start b | a succeeded, b starting");
  EXPECT_EQ(planned.held(), Planned::cpus("2"));
}

TEST(GoingOn, ALaterAttemptOfARemovedTrialIsStopped) {
  Planned planned("a", {.restored = {departure(Departure::removed)}});
  EXPECT_EQ(planned.begin(), "stop a | ");
  EXPECT_EQ(planned.listed({planned.observation("a", Phase::running, 2)}),
            "stop a#2 | a retrying (the attempt's end was not recorded), a starting, a running");
}

TEST(GoingOn, AnUnknownAttemptHasNoEffectAfterTheListing) {
  Planned planned("a b", {.restored = {{.state = TrialState::running, .was_started = true},
                                       {.state = TrialState::succeeded, .was_started = true}}});
  (void)planned.begin();
  EXPECT_EQ(
      planned.listed({planned.observation("a", Phase::running), planned.observation("b", Phase::running, 2)}),
      " | ");
  EXPECT_EQ(planned.seen(planned.observation("a", Phase::running, 2)), " | ");
  EXPECT_EQ(planned.state("b"), TrialState::succeeded);
}

TEST(GoingOn, AReplacedTrialBeginsAnew) {
  RestoredTrial old = departure(Departure::replaced);
  old.slots = Planned::cpus("2");
  Planned planned("a", {.capacity = Planned::cpus("4"), .restored = {old}});
  (void)planned.begin();
  (void)planned.listed({planned.observation("a", Phase::running)});
  EXPECT_TRUE(planned.may_start_more());
  (void)planned.adjust({.stopping = {"a"}, .stopper = "alice"});
  (void)planned.stopped("a", 1);
  EXPECT_EQ(planned.held(), Planned::cpus("2"));
  EXPECT_EQ(planned.ended("a", 143),
            "start a#2 | a retrying (replaced by its new definition in the file), a starting");
  EXPECT_EQ(planned.held(), Planned::cpus("0")) << "the new one wants nothing";
  (void)planned.started("a");
  EXPECT_TRUE(planned.done());
  EXPECT_FALSE(planned.may_start_more());
  Observation ended = planned.observation("a", Phase::ended);
  ended.exit_code = 143;
  ended.stopped = true;
  EXPECT_EQ(planned.seen(ended),
            "collect a#2 | a stopped (stopped from outside (exit code 143, SIGTERM), after 2 attempts)")
      << "alice has stopped the old one";
  EXPECT_EQ(planned.held(), Planned::cpus("0"));
}

TEST(GoingOn, TheEndOfADepartingAttemptSaysThatItRan) {
  Planned planned("a b", {.restored = {departure(Departure::removed), departure(Departure::replaced)}});
  (void)planned.begin();
  EXPECT_FALSE(planned.done());
  (void)planned.listed({planned.observation("a", Phase::running), planned.observation("b", Phase::running)});
  (void)planned.pause();
  (void)planned.ended("a", 0);
  EXPECT_TRUE(planned.fact("a").ran);
  EXPECT_EQ(planned.fact("a").cause, Cause::none);
  (void)planned.ended("b", 0);
  EXPECT_TRUE(planned.fact("b").ran);
  EXPECT_EQ(planned.fact("b").cause, Cause::stopped);
}

TEST(GoingOn, ARemovedTrialStartsNothing) {
  Planned planned("a", {.restored = {departure(Departure::removed)}});
  (void)planned.begin();
  (void)planned.listed({planned.observation("a", Phase::running)});
  EXPECT_FALSE(planned.may_start_more());
}

TEST(GoingOn, AReplacedTrialIsBlockedAfterTooManyFailures) {
  Experiment experiment = test::experiment("a b");
  experiment.failures_max = 1;
  Planned planned(std::move(experiment), {.restored = {departure(Departure::replaced), {}}});
  (void)planned.begin();
  (void)planned.listed({planned.observation("a", Phase::running)});
  EXPECT_EQ(planned.not_started("b"), " | b failed (could not be started: port is taken)");
  EXPECT_EQ(planned.ended("a", 143),
            " | a retrying (replaced by its new definition in the file), a blocked (not started: 1 trial has "
            "failed, which is the limit (max_failures))");
}

// While the old attempt is being stopped, the trial that the new attempt depends on gets the state in
// `restored`.
TEST(GoingOn, AReplacedTrialStartsIfItsDependenciesAreMet) {
  const auto end_of = [](const std::string& condition, const RestoredTrial& restored) {
    Planned planned("a b<-a:" + condition, {.restored = {restored, departure(Departure::replaced)}});
    (void)planned.begin();
    (void)planned.listed(
        {planned.observation("a", Phase::running), planned.observation("b", Phase::running)});
    return planned.ended("b", 143);
  };
  const std::string replaced = "b retrying (replaced by its new definition in the file)";
  const std::string starts = "start b#2 | " + replaced + ", b starting";
  const std::string waits = " | " + replaced;
  const auto blocked = [&](const std::string& why) {
    return " | " + replaced + ", b blocked (depends on `a`, which " + why + ")";
  };
  const RestoredTrial never_ran{.state = TrialState::failed, .cause = Cause::start};
  const RestoredTrial ran{.state = TrialState::failed, .cause = Cause::error, .was_started = true};
  const RestoredTrial healthy{
      .state = TrialState::failed, .cause = Cause::error, .was_started = true, .was_healthy = true};
  const RestoredTrial skipped{.state = TrialState::skipped};
  const RestoredTrial runs{.state = TrialState::running, .was_started = true};
  EXPECT_EQ(end_of("started", never_ran), blocked("was not started"));
  EXPECT_EQ(end_of("started", ran), starts);
  EXPECT_EQ(end_of("started", runs), starts);
  EXPECT_EQ(end_of("started", skipped), starts);
  EXPECT_EQ(end_of("healthy", ran), blocked("did not become healthy"));
  EXPECT_EQ(end_of("healthy", healthy), starts);
  EXPECT_EQ(end_of("healthy", runs), waits);
  EXPECT_EQ(end_of("healthy", skipped), starts);
  EXPECT_EQ(end_of("succeeded", ran), blocked("did not succeed"));
  EXPECT_EQ(end_of("succeeded", runs), waits);
  EXPECT_EQ(end_of("finished", ran), starts);
  EXPECT_EQ(end_of("finished", runs), waits);
}

TEST(GoingOn, AReplacedTrialIsBlockedByAnUnhealthyService) {
  Planned planned("!a b<-a:healthy c<-a", {.restored = {{.state = TrialState::running, .was_started = true},
                                                        departure(Departure::replaced),
                                                        {}}});
  (void)planned.begin();
  (void)planned.listed({planned.observation("a", Phase::running), planned.observation("b", Phase::running)});
  EXPECT_EQ(planned.health("a", Health::unhealthy), " | ");
  EXPECT_EQ(planned.ended("b", 143),
            " | b retrying (replaced by its new definition in the file), b blocked (depends on `a`, which "
            "did not become "
            "healthy)");
}

TEST(GoingOn, TheRecordDoesNotHaveTheTimeOfHealth) {
  const RestoredTrial over{.state = TrialState::failed,
                           .was_started = true,
                           .was_healthy = true,
                           .ran_at = at(40),
                           .over_at = at(70)};
  Planned planned("a b<-a:healthy c<-a d<-a:finished", {.restored = {over, {}, {}, {}}});
  (void)planned.pass(100);
  (void)planned.begin();
  EXPECT_EQ(planned.listed({}), "start b, start c, start d | b starting, c starting, d starting");
  EXPECT_EQ(planned.fact("b").ready_at, planned.now());
  EXPECT_EQ(planned.fact("c").ready_at, at(40));
  EXPECT_EQ(planned.fact("d").ready_at, at(70));
}

// Every container has an id. The engine may report a container that it created but could not start.
TEST(GoingOn, EventsOfAnotherContainerAreIgnored) {
  Planned planned("a b", {.restored = {{.state = TrialState::running, .was_started = true}, {}}});
  (void)planned.begin();
  Observation ended = planned.observation("a", Phase::ended);
  ended.id = "1";
  ended.exit_code = 0;
  EXPECT_EQ(planned.listed({ended}), "start b | a succeeded, b starting") << "its id is not on record";
  Observation running = planned.observation("b", Phase::running);
  running.id = "2";
  EXPECT_EQ(planned.seen(running), " | b running");
  EXPECT_EQ(planned.fact("b").id, "2");
  Observation other = planned.observation("b", Phase::ended);
  other.id = "3";
  other.exit_code = 1;
  EXPECT_EQ(planned.seen(other), " | ");
  other.id = "2";
  EXPECT_EQ(planned.seen(other), "collect b | b failed (exit code 1)");
}

// The limit of failures in the file may have been lowered since.
TEST(GoingOn, RunningTrialsAreNotBlockedAtTheLimitOfFailures) {
  Experiment experiment = with_retries("a b c d", {.max = 1, .on = {}});
  experiment.failures_max = 1;
  const RestoredTrial failed{
      .state = TrialState::failed, .cause = Cause::error, .exit_code = 3, .was_started = true};
  const RestoredTrial stopped{.state = TrialState::retrying,
                              .cause = Cause::stopped,
                              .exit_code = 143,
                              .was_started = true,
                              .ran_at = at(5)};
  const RestoredTrial running{.state = TrialState::running, .was_started = true, .ran_at = at(5)};
  Planned planned(experiment, {.restored = {failed, stopped, running, {}}, .engine_began_at = at(1)});
  EXPECT_EQ(planned.begin(),
            " | b stopped (stopped from outside (exit code 143, SIGTERM)), d blocked (not started: 1 trial "
            "has failed, which is the limit (max_failures))");
  EXPECT_EQ(planned.state("c"), TrialState::running);
}

}  // namespace
}  // namespace combu::test
