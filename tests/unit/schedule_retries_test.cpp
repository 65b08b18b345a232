// The planner: failed attempts, retries, max_failures.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <utility>

#include "schedule_planned.hpp"

namespace combu::test {
namespace {

TEST(Retries, AFailedAttemptIsFollowedByTheNextAfterAPause) {
  Planned it(with_retries("a", {.max = 2}));
  it.begin_running({"a"});
  EXPECT_EQ(it.ended("a", 1), "collect a | a retrying (exit code 1; attempt 2 in 1.0 s)");
  EXPECT_EQ(it.collected("a"), " | ");
  EXPECT_EQ(it.pass(0.9), " | ");
  EXPECT_EQ(it.pass(0.1), "start a#2 | a starting");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 1), "collect a#2 | a retrying (exit code 1; attempt 3 in 2.0 s)");
  (void)it.collected("a");
  EXPECT_EQ(it.pass(2), "start a#3 | a starting");
  EXPECT_EQ(it.started("a"), " | a running");
  EXPECT_FALSE(it.done());
  EXPECT_EQ(it.ended("a", 1), "collect a#3 | a failed (exit code 1, after 3 attempts)");
  (void)it.collected("a");
  EXPECT_TRUE(it.done());
}

TEST(Retries, TheNextAttemptWaitsUntilTheLastIsCollected) {
  Planned it(with_retries("a", {.max = 1}));
  it.begin_running({"a"});
  (void)it.ended("a", 1);
  EXPECT_EQ(it.pass(5), " | ");
  EXPECT_EQ(it.collected("a"), "start a#2 | a starting");
}

TEST(Retries, ThereAreNoRetriesByDefault) {
  Planned it("a");
  it.begin_running({"a"});
  EXPECT_EQ(it.ended("a", 137), "collect a | a failed (exit code 137, SIGKILL)");
}

TEST(Retries, OnlyTheNamedCausesAreRetried) {
  Retries retries{.max = 5};
  retries.on.set(static_cast<std::size_t>(Cause::oom));
  Planned it(with_retries("a b", retries));
  it.begin_running({"a", "b"});
  EXPECT_EQ(it.ended("a", 1), "collect a | a failed (exit code 1)");
  EXPECT_EQ(it.out_of_memory("b"),
            "collect b | b retrying (out of memory (exit code 137, SIGKILL); attempt 2 in 1.0 s)");
}

TEST(Retries, AStoppedAttemptIsNotRetried) {
  Retries retries{.max = 5};
  retries.on.set(static_cast<std::size_t>(Cause::error));
  Planned it(with_retries("a", retries));
  it.begin_running({"a"});
  const Observation seen = it.stopped_from_outside("a");
  EXPECT_EQ(it.seen(seen), "collect a | a stopped (stopped from outside (exit code 143, SIGTERM))");
}

TEST(Retries, AStoppedAttemptIsRetriedIfTheEngineRestarts) {
  for (const bool restarted : {true, false}) {
    Planned it(with_retries("a", {.max = 1}));
    it.begin_running({"a"});
    const Observation seen = it.stopped_from_outside("a");
    EXPECT_EQ(it.seen(seen),
              "collect a | a retrying (stopped from outside (exit code 143, SIGTERM); retried "
              "if the engine is being restarted)");
    (void)it.collected("a");
    EXPECT_EQ(it.pass(70), " | ");
    EXPECT_FALSE(it.done());
    if (restarted) {
      EXPECT_EQ(it.listing_begins_after_a_break(), "start a#2 | a starting");
    } else {
      EXPECT_EQ(it.pass(5), " | a stopped (stopped from outside (exit code 143, SIGTERM))");
      EXPECT_TRUE(it.done());
    }
  }
}

TEST(Retries, ATrialStoppedInALaterAttemptStaysStopped) {
  Planned it(with_retries("a", {.max = 3}));
  it.begin_running({"a"});
  it.end_and_collect("a", 1);
  EXPECT_EQ(it.pass(60), "start a#2 | a starting");
  (void)it.started("a");
  const Observation seen = it.stopped_from_outside("a");
  (void)it.seen(seen);
  EXPECT_EQ(it.collected("a"), " | ");
  EXPECT_EQ(it.state("a"), TrialState::retrying);
  EXPECT_EQ(it.pass(75), " | a stopped (stopped from outside (exit code 143, SIGTERM))");
}

TEST(Retries, TheReasonNamesThePersonWhoStopsATrial) {
  Planned it(with_retries("a b", {.max = 1}));
  it.begin_running({"a", "b"});
  EXPECT_EQ(it.adjust({.stopping = {"a", "unknown"}, .stopper = "alice"}), " | ");
  for (const auto& [name, words] :
       {std::pair("a", "collect a | a stopped (stopped by alice with `combu stop`)"),
        std::pair("b",
                  "collect b | b retrying (stopped from outside (exit code "
                  "143, SIGTERM); retried if the engine is being "
                  "restarted)")}) {
    const Observation seen = it.stopped_from_outside(name);
    EXPECT_EQ(it.seen(seen), words);
  }
}

TEST(Retries, ATrialThatWaitsForItsRetryCanBeStopped) {
  Planned it(with_retries("a b<-a:succeeded", {.max = 3, .pause = Seconds(20)}));
  it.begin_running({"a"});
  it.end_and_collect("a", 7);
  EXPECT_EQ(it.adjust({.stopping = {"a"}, .stopper = "alice"}),
            " | a failed (exit code 7; not retried: stopped by alice with `combu stop`), b blocked (depends "
            "on `a`, which did not succeed)");
  EXPECT_EQ(it.pass(60), " | ");
  EXPECT_TRUE(it.done());
}

TEST(Retries, AnAnnouncedStopAppliesToOneAttempt) {
  Retries retries{.max = 5};
  retries.on.set(static_cast<std::size_t>(Cause::error));
  Planned it(with_retries("a", retries));
  it.begin_running({"a"});
  (void)it.adjust({.stopping = {"a"}, .stopper = "alice"});
  EXPECT_THAT(it.ended("a", 1), testing::HasSubstr("a retrying (exit code 1"));
  (void)it.collected("a");
  (void)it.pass(60);
  (void)it.started("a");
  const Observation seen = it.stopped_from_outside("a");
  EXPECT_THAT(it.seen(seen), testing::HasSubstr("stopped from outside"));
}

TEST(Retries, ALostHostDoesNotSpendRetries) {
  Planned it(with_retries("a", {.max = 1}));
  it.begin_running({"a"});
  (void)it.listing_begins_after_a_break();
  Observation seen = it.observation("a", Phase::ended);
  seen.exit_code = 255;
  EXPECT_EQ(it.listed_after_a_break({seen}),
            "collect a | a retrying (lost with its host or engine (exit code 255); attempt 2 in 0 ms)");
  EXPECT_EQ(it.collected("a"), "start a#2 | a starting");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 1), "collect a#2 | a retrying (exit code 1; attempt 3 in 1.0 s)");
}

TEST(Retries, ARetryThatWaitsForSlotsIsReported) {
  Planned it(with_retries("a=2 b=2", {.max = 1}), {.capacity = Planned::cpus("2")});
  EXPECT_EQ(it.begin(), "start a | a starting");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 1),
            "collect a, start b | a retrying (exit code 1; attempt 2 in 1.0 s), b starting");
  (void)it.collected("a");
  EXPECT_EQ(it.pass(1), " | a ready");
  (void)it.started("b");
  EXPECT_EQ(it.ended("b", 0), "start a#2 | b succeeded, a starting");
}

TEST(Retries, ALikelyOutOfMemoryIsALostHostAfterABreak) {
  Planned it(with_retries("a", {.max = 1}));
  it.begin_running({"a"});
  Observation killed = it.observation("a", Phase::ended);
  killed.exit_code = 137;
  killed.oom_likely = true;
  EXPECT_EQ(
      it.listed_after_a_break({killed}),
      "collect a | a retrying (lost with its host or engine (exit code 137, SIGKILL); attempt 2 in 0 ms)");
}

TEST(Retries, DependentsWaitForTheLastAttempt) {
  Planned it(with_retries("a s<-a:succeeded f<-a:finished", {.max = 1}));
  it.begin_running({"a"});
  it.end_and_collect("a", 1);
  EXPECT_EQ(it.pass(1), "start a#2 | a starting");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 0), "start s, start f | a succeeded, s starting, f starting");
}

TEST(Retries, LateObservationsOfAnEarlierAttemptHaveNoEffect) {
  Planned it(with_retries("a", {.max = 1}));
  it.begin_running({"a"});
  (void)it.ended("a", 1);
  const Observation late = it.observation("a", Phase::ended, 1);
  (void)it.collected("a");
  (void)it.pass(1);
  EXPECT_EQ(it.seen(late), " | ");
  EXPECT_EQ(it.seen(it.observation("a", Phase::gone, 1)), " | ");
  EXPECT_EQ(it.state("a"), TrialState::starting);
}

TEST(Retries, ALateAnswerOfAnEarlierStopHasNoEffect) {
  Planned it(with_timeout(with_retries("a", {.max = 1}), Seconds(60)));
  it.begin_running({"a"});
  EXPECT_EQ(it.pass(60), "stop a | a running (timeout)");
  it.end_and_collect("a", 143);
  EXPECT_EQ(it.pass(1), "start a#2 | a starting");
  (void)it.started("a");
  EXPECT_EQ(it.not_stopped("a", 1), " | ");
  EXPECT_EQ(it.state("a"), TrialState::running);
}

// The stop cause is on record before the attempt is stopped.
TEST(Retries, ATimeoutOfADeadProcessCounts) {
  for (const Cause stop_cause : {Cause::timeout, Cause::none}) {
    Experiment experiment = with_timeout(with_retries("a", {.max = 1}), Seconds(5));
    PlannerOptions options;
    options.restored = {
        {.state = TrialState::running, .was_started = true, .ran_at = Instant{}, .stop_cause = stop_cause}};
    Planned it(std::move(experiment), options);
    (void)it.begin();
    Observation seen = it.observation("a", Phase::ended);
    seen.exit_code = 0;
    seen.stopped = stop_cause != Cause::none;
    seen.ran_at = Instant{};
    seen.ended_at = Instant{} + std::chrono::seconds(6);
    EXPECT_EQ(it.listed({seen}),
              stop_cause == Cause::none
                  ? " | a succeeded"
                  : "collect a | a retrying (took longer than its timeout of 5.0 s; attempt 2 in 1.0 s)");
  }
}

TEST(Retries, AStopAfterAnOutOfMemoryOfOneProcessIsAStop) {
  Planned it(with_retries("a", {.max = 1}));
  it.begin_running({"a"});
  (void)it.adjust({.stopping = {"a"}, .stopper = "alice"});
  Observation seen = it.observation("a", Phase::ended);
  seen.exit_code = 143;
  seen.oom = true;
  seen.stopped = true;
  EXPECT_EQ(it.seen(seen), "collect a | a stopped (stopped by alice with `combu stop`)");
}

TEST(MaxFailures, ARetryThatWaitsForSlotsKeepsItsFailure) {
  Experiment experiment = with_retries("a=2 b=2", {.max = 1});
  experiment.trials[1].retries = {};
  experiment.failures_max = 1;
  Planned it(experiment, {.capacity = Planned::cpus("2")});
  it.begin_running({"a"});
  it.end_and_collect("a", 7);
  (void)it.started("b");
  EXPECT_EQ(it.pass(1), " | a ready");
  EXPECT_EQ(it.ended("b", 3),
            "collect b | b failed (exit code 3), a failed (exit code 7; not retried: 1 trial has failed, "
            "which is the limit (max_failures))");
}

TEST(MaxFailures, NothingStartsAfterMaxFailures) {
  Experiment experiment = test::experiment("a b c d<-c:finished");
  experiment.failures_max = 2;
  experiment.parallel_max = 2;
  Planned it(experiment, k_wait);
  it.begin_running({"a", "b"});
  EXPECT_EQ(it.ended("a", 1), "collect a, start c | a failed (exit code 1), c starting");
  EXPECT_EQ(it.ended("b", 1),
            "collect b | b failed (exit code 1), d blocked (not started: 2 trials have failed, which is the "
            "limit (max_failures))");
  EXPECT_EQ(it.started("c"), " | c running") << "what has been started goes on";
  EXPECT_EQ(it.ended("c", 0), " | c succeeded");
}

TEST(MaxFailures, ARetryThatWaitsForItsPauseKeepsItsFailure) {
  Experiment experiment = with_retries("a b", {.max = 2, .pause = Seconds(20)});
  experiment.trials[1].retries = {};
  experiment.failures_max = 1;
  Planned it(std::move(experiment));
  it.begin_running({"a", "b"});
  it.end_and_collect("a", 7);
  EXPECT_EQ(it.ended("b", 3),
            "collect b | b failed (exit code 3), a failed (exit code 7; not retried: 1 trial has failed, "
            "which is the limit (max_failures))");
}

TEST(Retries, ARetryWaitsForTheAnswerOfTheLastStart) {
  Planned it(with_retries("a", {.max = 1}));
  (void)it.begin();
  (void)it.running("a");
  it.end_and_collect("a", 1);
  EXPECT_EQ(it.pass(1), " | ");
  EXPECT_EQ(it.accepted("a"), "start a#2 | a starting");
}

TEST(Retries, FactsNameTheirAttempt) {
  Planned it(with_retries("a b<-a:succeeded", {.max = 2, .pause = Seconds(20)}));
  it.begin_running({"a"});
  (void)it.ended("a", 7);
  EXPECT_EQ(it.fact("a").attempt, 1);
  (void)it.collected("a");
  (void)it.pass(20);
  EXPECT_EQ(it.fact("a").attempt, 2);
  EXPECT_EQ(it.fact("a").ready_at, at(20)) << "when its pause was over";
  (void)it.started("a");
  it.end_and_collect("a", 7);
  (void)it.adjust({.stopping = {"a"}, .stopper = "alice"});
  EXPECT_EQ(it.fact("a").attempt, 2) << "there was no third one";
}

TEST(Retries, TheNextAttemptHasItsOwnStartTime) {
  Planned it(with_retries("a", {.max = 1}));
  (void)it.begin();
  Observation first = it.observation("a", Phase::running);
  first.ran_at = at(0);
  (void)it.answered("a", first);
  (void)it.pass(5);
  it.end_and_collect("a", 1);
  EXPECT_EQ(it.pass(1), "start a#2 | a starting");
  (void)it.pass(3);
  EXPECT_EQ(it.started("a"), " | a running");
  EXPECT_EQ(it.fact("a").at, at(9));
}

TEST(Retries, NothingIsRetriedAfterAnInterruptForGood) {
  Planned it(with_retries("a", {.max = 2}));
  it.begin_running({"a"});
  (void)it.interrupt(true);
  EXPECT_EQ(it.ended("a", 3), "collect a | a failed (exit code 3)");
}

TEST(Retries, MoreMayStartWhileATrialMayBeRetried) {
  Planned it(with_retries("a", {.max = 1}));
  it.begin_running({"a"});
  EXPECT_TRUE(it.may_start_more());
  (void)it.ended("a", 0);
  EXPECT_FALSE(it.may_start_more());
  Planned others(with_retries("a b<-a:succeeded", {.max = 1}));
  others.begin_running({"a"});
  EXPECT_TRUE(others.may_start_more()) << "b waits, too";
  Planned once("a");
  once.begin_running({"a"});
  EXPECT_FALSE(once.may_start_more());
}

TEST(Retries, TheRunIsNotDoneWhileATrialWaitsForItsRetry) {
  Planned it(with_retries("a b<-a:succeeded", {.max = 1}));
  it.begin_running({"a"});
  it.end_and_collect("a", 1);
  EXPECT_FALSE(it.done());
  EXPECT_TRUE(it.may_start_more());
}

// Each loss counts, both if the break is known before the end of the attempt and if it is known only
// afterwards.
TEST(Retries, TheNumberOfLossesIsLimited) {
  Planned it(with_retries("a", {.max = 1}));
  (void)it.begin();
  for (int losses = 1; losses <= Planner::k_losses_max; ++losses) {
    (void)it.started("a");
    const Observation seen = it.stopped_from_outside("a");
    if (losses % 2 == 0) {
      (void)it.listing_begins_after_a_break();
      (void)it.listed_after_a_break({seen});
      (void)it.collected("a");
    } else {
      (void)it.seen(seen);
      (void)it.collected("a");
      (void)it.listing_begins_after_a_break();
      (void)it.listed_after_a_break({});
    }
    ASSERT_EQ(it.state("a"), TrialState::starting) << losses;
  }
  (void)it.started("a");
  Observation seen = it.observation("a", Phase::ended);
  seen.exit_code = 137;
  (void)it.listing_begins_after_a_break();
  EXPECT_EQ(
      it.listed_after_a_break({seen}),
      "collect a#11 | a failed (lost with its host or engine (exit code 137, SIGKILL), after 11 attempts)");
}

TEST(Retries, SlotsAreFreeWhileATrialAwaitsAVerdict) {
  Planned it(with_retries("a=2 b=2", {.max = 1}), {.capacity = Planned::cpus("2")});
  it.begin_running({"a"});
  const Observation seen = it.stopped_from_outside("a");
  EXPECT_EQ(it.seen(seen),
            "collect a, start b | a retrying (stopped from outside (exit code 143, SIGTERM); retried if the "
            "engine is being restarted), b starting");
}

TEST(Retries, AStopDuringTheVerdictIsFinal) {
  Planned it(with_retries("a", {.max = 1}));
  it.begin_running({"a"});
  const Observation seen = it.stopped_from_outside("a");
  (void)it.seen(seen);
  (void)it.collected("a");
  EXPECT_EQ(it.adjust({.stopping = {"a"}, .stopper = "alice"}),
            " | a stopped (stopped from outside (exit code 143, SIGTERM); not retried: stopped by alice with "
            "`combu stop`)");
  EXPECT_EQ(it.listing_begins_after_a_break(), " | ");
  EXPECT_EQ(it.pass(100), " | ");
  EXPECT_EQ(it.state("a"), TrialState::stopped);
}

TEST(Retries, TheTimeoutHasNoEffectWhileATrialAwaitsAVerdict) {
  Planned it(with_timeout(with_retries("a", {.max = 1}), Seconds(10)));
  it.begin_running({"a"});
  const Observation seen = it.stopped_from_outside("a");
  (void)it.seen(seen);
  (void)it.collected("a");
  EXPECT_EQ(it.pass(70), " | ");
  EXPECT_EQ(it.state("a"), TrialState::retrying);
  EXPECT_EQ(it.pass(5), " | a stopped (stopped from outside (exit code 143, SIGTERM))");
}

TEST(Retries, AStartAnsweredWithAnEndedAttemptIsLost) {
  Planned it(with_retries("a", {.max = 1}));
  (void)it.begin();
  Observation seen = it.observation("a", Phase::ended);
  seen.exit_code = 137;
  EXPECT_EQ(
      it.answered("a", seen),
      "collect a | a running, a retrying (lost with its host or engine (exit code 137, SIGKILL); attempt 2 "
      "in 0 ms)");
}

TEST(Retries, AnOutOfMemoryOfOneProcessIsAnOutOfMemory) {
  Planned it("a");
  it.begin_running({"a"});
  Observation seen = it.observation("a", Phase::ended);
  seen.exit_code = 1;
  seen.oom = true;
  EXPECT_EQ(it.seen(seen), "collect a | a failed (out of memory (exit code 1))");
}

TEST(Ending, TheEndFollowsFromTheContainer) {
  const auto reported = [](int exit_code, bool oom, bool stopped) {
    Observation ended{.phase = Phase::ended};
    ended.exit_code = exit_code;
    ended.oom = oom;
    ended.stopped = stopped;
    const Ending ending = ending_of(ended);
    return fmt::format("{} ({})", to_string(state_of(ending)), reason_text(ending.reason, ending.details, 1));
  };
  EXPECT_EQ(reported(0, false, false), "succeeded ()");
  EXPECT_EQ(reported(3, false, false), "failed (exit code 3)");
  EXPECT_EQ(reported(137, true, false), "failed (out of memory (exit code 137, SIGKILL))");
  EXPECT_EQ(reported(137, true, true), "failed (out of memory (exit code 137, SIGKILL))");
  EXPECT_EQ(reported(143, true, true), "stopped (stopped from outside (exit code 143, SIGTERM))");
  EXPECT_EQ(reported(143, false, true), "stopped (stopped from outside (exit code 143, SIGTERM))");
}

TEST(MaxFailures, ServicesWithoutUsersAreStoppedAfterMaxFailures) {
  Experiment experiment = test::experiment("!s a w<-s,a:succeeded b<-a");
  experiment.failures_max = 1;
  Planned it(std::move(experiment), k_wait);
  it.begin_running({"s", "a"});
  EXPECT_EQ(it.not_started("b"),
            "stop s | b failed (could not be started: port is taken), w blocked (not started: 1 trial has "
            "failed, which is the limit (max_failures))");
}

}  // namespace
}  // namespace combu::test
