// The planner: a later process continues a run.
#include <gtest/gtest.h>

#include <utility>

#include "schedule_planned.hpp"

namespace combu::test {
namespace {

TEST(GoingOn, AFurtherAttemptThatWaitedForSlotsIsStarted) {
  Planned it(
      with_retries("a", {.max = 1}),
      {.past = {{.state = TrialState::ready, .cause = Cause::error, .exit_code = 1, .was_started = true}}});
  (void)it.begin();
  EXPECT_EQ(it.listed({}), "start a#2 | a starting");
}

TEST(GoingOn, NothingStartsBeforeAListing) {
  Planned planned("a b<-a", {.past = {{}, {}}});
  EXPECT_EQ(planned.begin(), " | ");
  EXPECT_FALSE(planned.done());
  EXPECT_EQ(planned.listed({}), "start a | a starting");
}

TEST(GoingOn, WhatIsOverStaysSoAndWhatFollowsGoesOn) {
  Planned planned("a b c<-a:succeeded d<-b:succeeded",
                  {.past = {{.state = TrialState::succeeded, .was_started = true},
                            {.state = TrialState::failed, .cause = Cause::error, .was_started = true},
                            {},
                            {}}});
  EXPECT_EQ(planned.begin(), " | d blocked (depends on `b`, which did not succeed)");
  EXPECT_EQ(planned.listed({}), "start c | c starting");
}

TEST(GoingOn, WhatRanIsTakenInAsTheListingHasIt) {
  const Past ran{.state = TrialState::running, .was_started = true};
  Planned planned("a b c", {.past = {ran, ran, ran}});
  Sighting ended = planned.sighting("b", Phase::ended);
  ended.exit_code = 7;
  EXPECT_EQ(planned.begin(), " | ");
  (void)planned.listing_begins();
  EXPECT_EQ(planned.listed({planned.sighting("a", Phase::running), ended}),
            "collect b | b failed (exit code 7), c stopped (its container was removed while it ran)");
  EXPECT_EQ(planned.state("a"), TrialState::running);
}

TEST(GoingOn, WhatWasKilledMeanwhileIsLost) {
  Planned planned("a", {.past = {{.state = TrialState::running, .was_started = true}}});
  Sighting ended = planned.sighting("a", Phase::ended);
  ended.exit_code = 137;
  (void)planned.begin();
  (void)planned.listing_begins();
  EXPECT_EQ(planned.listed({ended}),
            "collect a | a failed (lost with its host or engine (exit code 137, SIGKILL))");
}

TEST(GoingOn, NothingIsLostWithAnEngineThatWasThereAllTheTime) {
  const Instant ran_at = Instant{} + std::chrono::hours(1);
  const Past running{.state = TrialState::running, .was_started = true, .ran_at = ran_at};
  for (const bool was_there : {true, false}) {
    Planned planned(
        "a", {.past = {running}, .engine_began_at = ran_at + std::chrono::seconds(was_there ? -1 : 1)});
    Sighting ended = planned.sighting("a", Phase::ended);
    ended.exit_code = 137;
    (void)planned.begin();
    EXPECT_EQ(planned.listed({ended}),
              was_there ? "collect a | a failed (exit code 137, SIGKILL)"
                        : "collect a | a failed (lost with its host or engine (exit code 137, SIGKILL))");
  }
  // What was being looked into when its process died.
  Past stopped = running;
  stopped.state = TrialState::retrying;
  stopped.cause = Cause::stopped;
  stopped.exit_code = 143;
  for (const bool was_there : {true, false}) {
    Planned planned(
        with_retries("a", {.max = 1}),
        {.past = {stopped}, .engine_began_at = ran_at + std::chrono::seconds(was_there ? -1 : 1)});
    EXPECT_EQ(planned.begin(),
              was_there ? " | a stopped (stopped from outside (exit code 143, SIGTERM))" : " | ");
    EXPECT_EQ(planned.listed({}), was_there ? " | " : "start a#2 | a starting");
  }
}

TEST(GoingOn, WhatEndedInTimeWhileNobodyWatchedHasNotTakenTooLong) {
  Experiment experiment = test::experiment("a");
  experiment.trials[0].timeout = Seconds(10);
  Planned planned(experiment, {.past = {{.state = TrialState::running,
                                         .was_started = true,
                                         .ran_at = Instant{} - std::chrono::hours(1)}}});
  EXPECT_EQ(planned.begin(), " | ");
  Sighting ended = planned.sighting("a", Phase::ended);
  ended.exit_code = 0;
  EXPECT_EQ(planned.listed({ended}), " | a succeeded");
}

TEST(GoingOn, TheEngineKnowsOfALaterAttemptThanTheRecord) {
  const Past running{.state = TrialState::running, .was_started = true};
  for (const Phase phase : {Phase::running, Phase::ended}) {
    Planned planned("a", {.past = {running}});
    (void)planned.begin();
    Sighting later = planned.sighting("a", phase, 2);
    if (phase == Phase::ended) later.exit_code = 0;
    EXPECT_EQ(planned.listed({later}),
              phase == Phase::running
                  ? " | a retrying (how it ended is not on record), a starting, a running"
                  : " | a retrying (how it ended is not on record), a starting, a running, "
                    "a succeeded");
  }
}

Past leaving(Leaving how) {
  return {.state = TrialState::running, .was_started = true, .leaving = how};
}

TEST(GoingOn, WhatLeavesIsStoppedWhileTheRestGoesOn) {
  Planned planned("a b c<-b d", {.past = {leaving(Leaving::removed), leaving(Leaving::replaced), {}, {}}});
  EXPECT_EQ(planned.begin(), "stop a, stop b | ");
  EXPECT_EQ(planned.listed({planned.sighting("a", Phase::running), planned.sighting("b", Phase::running)}),
            "start d | d starting");
  EXPECT_EQ(planned.ended("a", 0), " | a stopped (removed from the file)");
  EXPECT_EQ(planned.started("d"), " | d running");
  EXPECT_FALSE(planned.done());
  // Nobody has seen the new one run.
  EXPECT_EQ(planned.ended("b", 143),
            "start b#2 | b retrying (replaced by what the file says now), b starting");
  EXPECT_EQ(planned.started("b"), "start c | b running, c starting");
}

TEST(GoingOn, WhatHasLeftMeanwhileIsNoFailure) {
  Planned planned("a b", {.past = {leaving(Leaving::removed), leaving(Leaving::replaced)}});
  EXPECT_EQ(planned.begin(), "stop a, stop b | ");
  Sighting ended = planned.sighting("b", Phase::ended);
  ended.exit_code = 3;
  (void)planned.listing_begins();
  EXPECT_EQ(planned.listed({ended}),
            "start b#2 | b retrying (replaced by what the file says now), a stopped (removed from the file), "
            "b starting");
}

TEST(GoingOn, WhatIsReplacedWaitsForWhatItDependsOnNow) {
  for (const bool succeeds : {true, false}) {
    Planned planned("a b<-a:succeeded", {.past = {{}, leaving(Leaving::replaced)}});
    EXPECT_EQ(planned.begin(), "stop b | ");
    EXPECT_EQ(planned.listed({planned.sighting("b", Phase::running)}), "start a | a starting");
    (void)planned.started("a");
    if (!succeeds) (void)planned.ended("a", 1);
    EXPECT_EQ(planned.ended("b", 143), succeeds ? " | b retrying (replaced by what the file says now)"
                                                : " | b retrying (replaced by what the file says now), "
                                                  "b blocked (depends on `a`, which did not succeed)");
    if (succeeds) {
      EXPECT_EQ(planned.ended("a", 0), "start b#2 | a succeeded, b starting");
    }
  }
}

TEST(GoingOn, WhatLeavesAndCannotBeStoppedIsNotStartedAnew) {
  Planned planned("a", {.past = {leaving(Leaving::replaced)}});
  (void)planned.begin();
  (void)planned.listed({planned.sighting("a", Phase::running)});
  EXPECT_EQ(planned.not_stopped("a", 1),
            " | a failed (replaced by what the file says now, and could not be stopped: no)");
}

TEST(GoingOn, TheCanaryThatIsReplacedLeavesItToTheNext) {
  Experiment experiment = test::experiment("a b");
  experiment.canary = true;
  Planned planned(std::move(experiment), {.past = {leaving(Leaving::replaced), {}}});
  (void)planned.begin();
  EXPECT_EQ(planned.listed({planned.sighting("a", Phase::running)}), "start b | b starting");
  planned.started("b");
  EXPECT_EQ(planned.ended("a", 143), " | a retrying (replaced by what the file says now)");
  EXPECT_EQ(planned.ended("b", 0), "start a#2 | b succeeded, a starting");
}

TEST(GoingOn, AStartThatNobodyHasSeenIsMadeAgain) {
  const Past starting{.state = TrialState::starting};
  Planned planned("a b", {.past = {starting, starting}});
  (void)planned.begin();
  EXPECT_EQ(planned.listed({planned.sighting("b", Phase::running)}),
            "start a | b running, a ready, a starting");
}

TEST(GoingOn, WhatShallNotRunAnyMoreIsNotStartedAgain) {
  Experiment experiment = test::experiment("a");
  experiment.deadline = Seconds(10);
  Planned planned(std::move(experiment), {.past = {{.state = TrialState::starting}},
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
  Planned planned(std::move(experiment), {.past = {{.state = TrialState::running,
                                                    .attempt = 3,
                                                    .was_started = true,
                                                    .earlier = {Cause::error, Cause::error}}}});
  (void)planned.begin();
  Sighting ended = planned.sighting("a", Phase::ended, 3);
  ended.exit_code = 1;
  EXPECT_EQ(planned.listed({ended}), "collect a#3 | a failed (exit code 1, after 3 attempts)");
}

TEST(GoingOn, TimeLimitsCountFromTheFirstBeginning) {
  Experiment experiment = test::experiment("a");
  experiment.trials[0].timeout = Seconds(10);
  const Instant began{};
  Planned planned(std::move(experiment), {.past = {{.state = TrialState::running,
                                                    .was_started = true,
                                                    .ran_at = began - std::chrono::seconds(4)}}});
  (void)planned.begin();
  (void)planned.listed({planned.sighting("a", Phase::running)});
  EXPECT_EQ(planned.pass(5), " | ");
  EXPECT_EQ(planned.pass(2), "stop a | a running (timeout)");
}

TEST(GoingOn, WhatAListingTellsWasWhenTheEngineSays) {
  const Experiment experiment = test::experiment("a b");
  const Plan plan = test::plan(experiment);
  Planner planner(RunId("run"), experiment, plan, {});
  const auto at = [](int seconds) { return Instant{} + std::chrono::seconds(seconds); };
  (void)planner.step(Begin{}, at(1));
  const Sighting a{.key = {.run = RunId("run"), .trial = "a"}, .phase = Phase::running, .ran_at = at(3)};
  EXPECT_EQ(planner.step(StartAnswered{.trial = 0, .seen = a}, at(5)).facts.at(0).at, at(3));
  Sighting over = a;
  over.phase = Phase::ended;
  over.exit_code = 0;
  over.ended_at = at(4);
  (void)planner.step(ListingBegins{}, at(20));
  EXPECT_EQ(planner.step(Listed{{over}}, at(20)).facts.at(0).at, at(4));
  // Another clock: neither before what was told of it, nor in the future.
  Sighting b{.key = {.run = RunId("run"), .trial = "b"}, .phase = Phase::running, .ran_at = at(0)};
  EXPECT_EQ(planner.step(StartAnswered{.trial = 1, .seen = b}, at(21)).facts.at(0).at, at(1));
  b.phase = Phase::ended;
  b.exit_code = 0;
  b.ended_at = at(100);
  EXPECT_EQ(planner.step(Seen{b}, at(22)).facts.at(0).at, at(22));
}

}  // namespace
}  // namespace combu::test
