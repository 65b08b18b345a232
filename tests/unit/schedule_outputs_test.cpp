// The planner: a trial is over when its outputs are collected.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "schedule_planned.hpp"

namespace combu::test {
namespace {

Experiment with_outputs(const std::string& text) {
  Experiment experiment = test::experiment(text);
  for (Trial& trial : experiment.trials)
    if (!trial.service) trial.outputs = {Output{.path = "/out"}};
  return experiment;
}

TEST(Outputs, ATrialIsOverWhenItsOutputsAreCollected) {
  Planned it(with_outputs("a b<-a:succeeded"), {.until = Until::ended});
  it.begin();
  it.started("a");
  EXPECT_EQ(it.ended("a", 0), "take a | a collecting");
  EXPECT_FALSE(it.done());
  EXPECT_EQ(it.collected("a"), "start b | a succeeded, b starting");
  it.started("b");
  it.ended("b", 0);
  EXPECT_FALSE(it.done());
  EXPECT_EQ(it.collected("b"), " | b succeeded");
  EXPECT_TRUE(it.done());
}

TEST(Outputs, TheRunIsNotDoneBeforeTheOutputsAreCollected) {
  Planned it(with_outputs("a"));
  it.begin();
  it.started("a");
  EXPECT_FALSE(it.done()) << "though nobody waits for its end";
  it.ended("a", 0);
  EXPECT_FALSE(it.done());
  it.collected("a");
  EXPECT_TRUE(it.done());
}

TEST(Outputs, SlotsAreFreeDuringCollection) {
  Experiment experiment = with_outputs("a=2 b=2");
  Planned it(experiment, {.capacity = Slots{.cpus = parse_cpus("2"), .memory = {}, .gpus = {}}});
  EXPECT_EQ(it.begin(), "start a | a starting");
  it.started("a");
  EXPECT_EQ(it.ended("a", 0), "take a, start b | a collecting, b starting");
}

TEST(Outputs, ATrialWithoutItsOutputsFails) {
  Planned it(with_outputs("a b<-a:succeeded"));
  it.begin();
  it.started("a");
  it.ended("a", 0);
  EXPECT_EQ(it.not_left("a"),
            " | a failed (/out: nothing there), b blocked (depends on `a`, which did not succeed)");
  EXPECT_TRUE(it.done());
}

Experiment with_outputs_and_retries(const std::string& text, int retries) {
  Experiment experiment = with_retries(text, {.max = retries});
  for (Trial& trial : experiment.trials) trial.outputs = {Output{.path = "/out"}};
  return experiment;
}

TEST(Outputs, ATrialWithoutItsOutputsIsRetried) {
  Planned it(with_outputs_and_retries("a", 1));
  it.begin();
  it.started("a");
  it.ended("a", 0);
  EXPECT_EQ(it.not_left("a"), " | a retrying (/out: nothing there; attempt 2 in 1.0 s)");
  EXPECT_EQ(it.pass(1), "start a#2 | a starting");
}

TEST(Outputs, OutputsOfAFailedAttemptAreCollectedBeforeTheRetry) {
  Planned it(with_outputs_and_retries("a", 1));
  it.begin();
  it.started("a");
  EXPECT_EQ(it.ended("a", 3), "take a | a collecting (exit code 3)");
  EXPECT_EQ(it.pass(100), " | ") << "the next attempt would take its place";
  EXPECT_EQ(it.collected("a"), " | a retrying (exit code 3; attempt 2 in 1.0 s)");
  EXPECT_EQ(it.pass(1), "start a#2 | a starting");
  it.started("a");
  it.ended("a", 3);
  EXPECT_EQ(it.not_left("a"), " | a failed (exit code 3; outputs: /out: nothing there, after 2 attempts)");
}

TEST(Outputs, ASucceededAttemptWhoseHostIsLostWithItsOutputsRunsAgain) {
  Planned it(with_outputs_and_retries("a b<-a:succeeded", 1));
  it.begin();
  it.started("a");
  it.ended("a", 0);
  EXPECT_EQ(it.lost_with_outputs("a"),
            "start a#2 | a retrying (its node is gone; attempt 2 in 0 ms), a starting");
  it.started("a");
  it.ended("a", 0);
  EXPECT_EQ(it.collected("a"), "start b | a succeeded, b starting");
}

TEST(Outputs, OutputsLostWithTheirHostDoNotCountAsAFailure) {
  Planned it(with_outputs_and_retries("a", 1));
  it.begin();
  it.started("a");
  it.ended("a", 0);
  it.lost_with_outputs("a");
  it.pass(0);
  it.started("a");
  it.ended("a", 3);
  EXPECT_EQ(it.collected("a"), " | a retrying (exit code 3; attempt 3 in 1.0 s)");
  it.pass(1);
  it.started("a");
  it.ended("a", 3);
  EXPECT_EQ(it.collected("a"), " | a failed (exit code 3, after 3 attempts)");
}

TEST(Outputs, AFailedAttemptWhoseHostIsLostWithItsOutputsHasFailed) {
  Planned it(with_outputs("a"));
  it.begin();
  it.started("a");
  it.ended("a", 3);
  EXPECT_EQ(it.lost_with_outputs("a"), " | a failed (exit code 3; outputs: its node is gone)");
}

TEST(Outputs, OutputsLostWithTheirHostFailATrialWithoutRetries) {
  Planned it(with_outputs("a"));
  it.begin();
  it.started("a");
  it.ended("a", 0);
  EXPECT_EQ(it.lost_with_outputs("a"), " | a failed (its node is gone)");
  EXPECT_EQ(it.fact("a").cause, Cause::host_lost);
}

TEST(Outputs, OutputsAreNotLostForEver) {
  Planned it(with_outputs_and_retries("a", 1));
  it.begin();
  int losses = 0;
  while (it.state("a") != TrialState::failed) {
    ASSERT_LT(++losses, 1000);
    it.started("a");
    it.ended("a", 0);
    it.lost_with_outputs("a");
    it.pass(0);
  }
  EXPECT_GT(losses, 1);
  EXPECT_TRUE(it.done());
}

TEST(Outputs, OutputsCanBeLimitedToSucceededAttempts) {
  Experiment experiment = with_outputs("a b");
  experiment.collect.on = CollectOn::success;
  Planned it(experiment);
  it.begin();
  it.started("a");
  it.started("b");
  EXPECT_EQ(it.ended("a", 3), "collect a | a failed (exit code 3)") << "the end of its log";
  EXPECT_EQ(it.ended("b", 0), "take b | b collecting");
}

TEST(Outputs, AFullDiskDoesNotFailTheTrial) {
  Planned it(with_outputs("a b<-a:succeeded"), {.until = Until::ended});
  it.begin();
  it.started("a");
  it.ended("a", 0);
  EXPECT_EQ(it.not_taken("a"), " | a collecting (its outputs are not collected yet: disk full)");
  EXPECT_EQ(it.pass(1), "take a | ");
  EXPECT_EQ(it.not_taken("a"), " | ") << "told once";
  EXPECT_EQ(it.pass(1), " | ") << "the pause grows";
  EXPECT_EQ(it.pass(1), "take a | ");
  EXPECT_EQ(it.undelivered(), "a: disk full");
  EXPECT_EQ(it.collected("a"), "start b | a succeeded, b starting");
  EXPECT_EQ(it.undelivered(), "");
}

// Collecting is tried for ten minutes, and then left to a later process.
TEST(Outputs, TheRunDoesNotWaitForEverForAFullDisk) {
  Planned it(with_outputs("a b<-a:succeeded c"), {.until = Until::ended});
  it.begin();
  it.started("a");
  it.started("c");
  it.ended("a", 0);
  it.not_taken("a");
  for (int minutes = 0; minutes < 100; ++minutes) {
    EXPECT_EQ(it.pass(60), "take a | ");
    it.not_taken("a");
    ASSERT_FALSE(it.done()) << "c runs still";
  }
  it.ended("c", 0);
  it.collected("c");
  EXPECT_FALSE(it.done()) << "it is tried once more";
  EXPECT_EQ(it.pass(60), "take a | ");
  it.not_taken("a");
  EXPECT_TRUE(it.done());
  EXPECT_EQ(it.state("a"), TrialState::collecting);
  EXPECT_EQ(it.state("b"), TrialState::waiting);
}

TEST(Outputs, OutputsOfAStoppedServiceAreCollected) {
  Experiment experiment = test::experiment("!s a<-s");
  experiment.trials[0].outputs = {Output{.path = "/dump"}};
  Planned it(experiment, {.until = Until::ended});
  it.begin();
  it.started("s");
  it.started("a");
  EXPECT_EQ(it.ended("a", 0), "stop s | a succeeded");
  it.stopped("s");
  EXPECT_EQ(it.ended("s", 143), "take s | s collecting");
  EXPECT_FALSE(it.done());
  EXPECT_EQ(it.collected("s"), " | s stopped");
  EXPECT_TRUE(it.done());
}

TEST(Outputs, AnAttemptThatTimedOutFailsAfterCollection) {
  Experiment experiment = with_outputs("a");
  experiment.trials[0].timeout = Seconds(10);
  Planned it(experiment);
  it.begin();
  it.started("a");
  EXPECT_EQ(it.pass(10), "stop a | a running (timeout)");
  it.stopped("a");
  EXPECT_EQ(it.ended("a", 143), "take a | a collecting (took longer than its timeout of 10.0 s)");
  EXPECT_EQ(it.collected("a"), " | a failed (took longer than its timeout of 10.0 s)");
}

// An engine that shuts down stops its containers, and is unreachable afterwards.
TEST(Outputs, AStoppedAttemptIsLostIfTheEngineGoesAwayDuringCollection) {
  Planned it(with_outputs_and_retries("a", 1));
  it.begin();
  it.started("a");
  Observation stopped = it.observation("a", Phase::ended);
  stopped.exit_code = 137;
  stopped.stopped = true;
  EXPECT_EQ(it.seen(stopped), "take a | a collecting (stopped from outside (exit code 137, SIGKILL))");
  it.not_taken("a");
  it.listing_begins_after_a_break();
  it.listed_after_a_break({stopped});
  EXPECT_EQ(it.pass(1), "take a | ");
  EXPECT_EQ(
      it.collected("a"),
      "start a#2 | a retrying (lost with its host or engine (exit code 137, SIGKILL); attempt 2 in 0 ms), "
      "a starting");
}

TEST(Outputs, ALaterProcessCollectsThem) {
  const auto restored = [](Cause cause, std::optional<int> exit_code, const std::string& reason) {
    return RestoredTrial{.state = TrialState::collecting,
                         .cause = cause,
                         .exit_code = exit_code,
                         .reason = reason,
                         .details = {.next = Next::collect, .next_why = "disk full"},
                         .was_started = true};
  };
  PlannerOptions options{.until = Until::ended};
  options.restored = {restored(Cause::none, 0, ""), restored(Cause::error, 3, "exit code 3"),
                      RestoredTrial{}};
  Planned it(with_outputs("a b c<-a:succeeded"), options);
  EXPECT_EQ(it.begin(), "take a, take b | ");
  EXPECT_EQ(it.listed({}), " | ") << "containers that are gone are seen when something is taken out of them";
  EXPECT_EQ(it.collected("b"), " | b failed (exit code 3)");
  EXPECT_EQ(it.collected("a"), "start c | a succeeded, c starting");
}

TEST(Outputs, AnInterruptedRunLeavesThemToALaterProcess) {
  Planned it(with_outputs("a"));
  it.begin();
  it.started("a");
  it.ended("a", 0);
  it.interrupt();
  EXPECT_TRUE(it.done());
  EXPECT_EQ(it.state("a"), TrialState::collecting);
}

TEST(Outputs, TheEndOfTheLogOfAFailedAttemptIsCollectedOnce) {
  Planned it(with_outputs("a b"));
  it.begin();
  it.started("a");
  it.ended("a", 3);
  EXPECT_TRUE(it.collect("a").tail);
  EXPECT_TRUE(it.collect("a").failed) << "it need not have left them all";
  it.not_taken("a");
  EXPECT_EQ(it.pass(1), "take a | ");
  EXPECT_TRUE(it.collect("a").failed);
  it.started("b");
  it.ended("b", 0);
  EXPECT_FALSE(it.collect("b").tail);
  EXPECT_FALSE(it.collect("b").failed);
  it.not_taken("b");
  EXPECT_EQ(it.pass(1), "take b | ");
  EXPECT_FALSE(it.collect("b").failed);
}

TEST(Outputs, MissingOutputsAreACauseForRetries) {
  Experiment experiment = with_outputs_and_retries("a", 1);
  experiment.trials[0].retries.on.reset();
  experiment.trials[0].retries.on.set(static_cast<std::size_t>(Cause::outputs));
  Planned it(experiment);
  it.begin();
  it.started("a");
  it.ended("a", 0);
  EXPECT_EQ(it.not_left("a"), " | a retrying (/out: nothing there; attempt 2 in 1.0 s)");
  EXPECT_EQ(it.fact("a").cause, Cause::outputs);
}

TEST(Outputs, TheEndOfATrialHasTheTimeOfItsCollection) {
  Planned it(with_outputs("a"));
  it.begin();
  it.started("a");
  it.pass(5);
  it.ended("a", 0);
  EXPECT_EQ(it.fact("a").at, at(5)) << "collecting";
  it.pass(5);
  it.collected("a");
  EXPECT_EQ(it.fact("a").at, at(10));
}

TEST(Outputs, SuccessesAndStopsByAPersonAreNotLostIfTheEngineGoesAway) {
  Planned it(with_outputs_and_retries("a b", 1));
  it.begin();
  it.started("a");
  it.started("b");
  it.ended("a", 0);
  it.adjust({.stopping = {"b"}, .stopper = "alice"});
  Observation stopped = it.observation("b", Phase::ended);
  stopped.exit_code = 137;
  stopped.stopped = true;
  it.seen(stopped);
  it.listing_begins_after_a_break();
  it.listed_after_a_break({});
  EXPECT_EQ(it.collected("a"), " | a succeeded");
  EXPECT_EQ(it.collected("b"), " | b stopped (stopped by alice with `combu stop`)");
}

TEST(Outputs, CollectingIsTriedFifteenTimesIfThereIsNoOtherWork) {
  Planned it(with_outputs("a"), {.until = Until::ended});
  it.begin();
  it.started("a");
  it.ended("a", 0);
  for (int tries = 1; tries < 15; ++tries) {
    it.not_taken("a");
    ASSERT_FALSE(it.done()) << tries;
    EXPECT_EQ(it.pass(60), "take a | ");
  }
  it.not_taken("a");
  EXPECT_TRUE(it.done());
}

// Returns true if the run still tries to collect the outputs of `a` after many failed tries. `prepare` brings
// the other trials into a state.
bool is_tried_on(const std::string& others, const std::function<void(Planned&)>& prepare) {
  Experiment experiment = test::experiment("a " + others);
  experiment.trials[0].outputs = {Output{.path = "/out"}};
  for (Trial& trial : experiment.trials) {
    trial.cache.on = trial.name == "cached";
    if (trial.name != "retried") continue;
    trial.retries = {.max = 1, .pause = Seconds(1e6), .pause_max = Seconds(1e6)};
    trial.retries.on.set();
  }
  Planned it(std::move(experiment), {.until = Until::ended, .looks_up_cache = true});
  it.begin();
  it.started("a");
  prepare(it);
  it.ended("a", 0);
  for (int tries = 0; tries < 20; ++tries) {
    it.not_taken("a");
    it.pass(60);
  }
  return !it.done();
}

TEST(Outputs, CollectingIsRetriedAsLongAsThereIsOtherWork) {
  EXPECT_FALSE(is_tried_on("", [](Planned&) {}));
  EXPECT_TRUE(is_tried_on("c", [](Planned&) {})) << "a start is under way";
  EXPECT_TRUE(is_tried_on("c", [](Planned& it) { it.accepted("c"); }));
  EXPECT_TRUE(is_tried_on("c", [](Planned& it) { it.started("c"); }));
  EXPECT_TRUE(is_tried_on("c", [](Planned& it) { it.running("c"); })) << "the start has not been answered";
  EXPECT_TRUE(is_tried_on("c !s w<-s", [](Planned& it) {
    it.accepted("c");
    it.started("s");
    it.started("w");
    it.ended("w", 0);
  })) << "a service is being stopped";
  EXPECT_TRUE(is_tried_on("c d", [](Planned& it) {
    it.accepted("c");
    it.started("d");
    it.ended("d", 1);
  })) << "the end of a log is being taken";
  EXPECT_TRUE(is_tried_on("c cached", [](Planned& it) { it.accepted("c"); })) << "a lookup is under way";
  EXPECT_TRUE(is_tried_on("c retried", [](Planned& it) {
    it.accepted("c");
    it.started("retried");
    it.ended("retried", 1);
    it.collected("retried");
  })) << "a pause before a further attempt";
}

}  // namespace
}  // namespace combu::test
