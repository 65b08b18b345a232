// The planner: failed attempts, retries, max_failures.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "schedule_planned.hpp"

namespace combu::test {
namespace {

TEST(Retries, AFailedAttemptIsFollowedByTheNextAfterAPause) {
  Planned it(with_retries("a", {.max = 2}));
  (void)it.begin();
  (void)it.started("a");
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

TEST(Retries, TheNextAttemptWaitsUntilAllOfTheLastHasBeenTaken) {
  Planned it(with_retries("a", {.max = 1}));
  (void)it.begin();
  (void)it.started("a");
  (void)it.ended("a", 1);
  EXPECT_EQ(it.pass(5), " | ");
  EXPECT_EQ(it.collected("a"), "start a#2 | a starting");
}

TEST(Retries, NoneIsTheDefault) {
  Planned it("a");
  (void)it.begin();
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 137), "collect a | a failed (exit code 137, SIGKILL)");
}

TEST(Retries, OnlyAfterTheCausesThatAreNamed) {
  Retries retries{.max = 5};
  retries.on.set(static_cast<std::size_t>(Cause::oom));
  Planned it(with_retries("a b", retries));
  (void)it.begin();
  (void)it.started("a");
  (void)it.started("b");
  EXPECT_EQ(it.ended("a", 1), "collect a | a failed (exit code 1)");
  EXPECT_EQ(it.out_of_memory("b"),
            "collect b | b retrying (out of memory (exit code 137, SIGKILL); attempt 2 in 1.0 s)");
}

TEST(Retries, WhatSomebodyStoppedIsNotTriedAgain) {
  Retries retries{.max = 5};
  retries.on.set(static_cast<std::size_t>(Cause::error));
  Planned it(with_retries("a", retries));
  (void)it.begin();
  (void)it.started("a");
  Sighting seen = it.sighting("a", Phase::ended);
  seen.exit_code = 143;
  seen.stopped = true;
  EXPECT_EQ(it.seen(seen), "collect a | a stopped (stopped from outside (exit code 143, SIGTERM))");
}

TEST(Retries, WhoStoppedItShowsWhenTheEngineGoesAway) {
  for (const bool restarted : {true, false}) {
    Planned it(with_retries("a", {.max = 1}));
    (void)it.begin();
    (void)it.started("a");
    Sighting seen = it.sighting("a", Phase::ended);
    seen.exit_code = 143;
    seen.stopped = true;
    EXPECT_EQ(it.seen(seen),
              "collect a | a retrying (stopped from outside (exit code 143, SIGTERM); tried "
              "again if the engine is being restarted)");
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

TEST(Retries, WhatIsStoppedInALaterAttemptStaysStopped) {
  Planned it(with_retries("a", {.max = 3}));
  (void)it.begin();
  (void)it.started("a");
  (void)it.ended("a", 1);
  (void)it.collected("a");
  EXPECT_EQ(it.pass(60), "start a#2 | a starting");
  (void)it.started("a");
  Sighting seen = it.sighting("a", Phase::ended);
  seen.exit_code = 143;
  seen.stopped = true;
  (void)it.seen(seen);
  EXPECT_EQ(it.collected("a"), " | ");
  EXPECT_EQ(it.state("a"), TrialState::retrying);
  EXPECT_EQ(it.pass(75), " | a stopped (stopped from outside (exit code 143, SIGTERM))");
}

TEST(Retries, WhoAnnouncesThatHeStopsItIsTold) {
  Planned it(with_retries("a b", {.max = 1}));
  (void)it.begin();
  (void)it.started("a");
  (void)it.started("b");
  EXPECT_EQ(it.adjust({.stopping = {"a", "unknown"}, .stopper = "alice"}), " | ");
  for (const auto& [name, words] :
       {std::pair("a", "collect a | a stopped (stopped by alice with `combu stop`)"),
        std::pair("b",
                  "collect b | b retrying (stopped from outside (exit code "
                  "143, SIGTERM); tried again if the engine is being "
                  "restarted)")}) {
    Sighting seen = it.sighting(name, Phase::ended);
    seen.exit_code = 143;
    seen.stopped = true;
    EXPECT_EQ(it.seen(seen), words);
  }
}

TEST(Retries, WhatWaitsForItsNextAttemptIsStoppedByItsName) {
  Planned it(with_retries("a b<-a:succeeded", {.max = 3, .pause = Seconds(20)}));
  (void)it.begin();
  (void)it.started("a");
  (void)it.ended("a", 7);
  (void)it.collected("a");
  EXPECT_EQ(
      it.adjust({.stopping = {"a"}, .stopper = "alice"}),
      " | a failed (exit code 7; not tried again: stopped by alice with `combu stop`), b blocked (depends "
      "on `a`, which did not succeed)");
  EXPECT_EQ(it.pass(60), " | ");
  EXPECT_TRUE(it.done());
}

TEST(Retries, WhatWasAnnouncedIsOfThatAttempt) {
  Retries retries{.max = 5};
  retries.on.set(static_cast<std::size_t>(Cause::error));
  Planned it(with_retries("a", retries));
  (void)it.begin();
  (void)it.started("a");
  (void)it.adjust({.stopping = {"a"}, .stopper = "alice"});
  EXPECT_THAT(it.ended("a", 1), testing::HasSubstr("a retrying (exit code 1"));
  (void)it.collected("a");
  (void)it.pass(60);
  (void)it.started("a");
  Sighting seen = it.sighting("a", Phase::ended);
  seen.exit_code = 143;
  seen.stopped = true;
  EXPECT_THAT(it.seen(seen), testing::HasSubstr("stopped from outside"));
}

TEST(Retries, ALostHostDoesNotSpendThem) {
  Planned it(with_retries("a", {.max = 1}));
  (void)it.begin();
  (void)it.started("a");
  (void)it.listing_begins_after_a_break();
  Sighting seen = it.sighting("a", Phase::ended);
  seen.exit_code = 255;
  EXPECT_EQ(it.listed_after_a_break({seen}),
            "collect a | a retrying (lost with its host or engine (exit code 255); attempt 2 in 0 ms)");
  EXPECT_EQ(it.collected("a"), "start a#2 | a starting");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 1), "collect a#2 | a retrying (exit code 1; attempt 3 in 1.0 s)");
}

TEST(Retries, MemoryGrowsAfterOutOfMemoryAndIsReserved) {
  Experiment experiment = with_retries("a b", {.max = 3, .grow_memory = 1.5});
  for (Trial& trial : experiment.trials) trial.slots.memory = Bytes{1000};
  Planned it(experiment, {.capacity = Slots{.cpus = {}, .memory = Bytes{2100}}});
  EXPECT_EQ(it.begin(), "start a, start b | a starting, b starting");
  (void)it.started("a");
  (void)it.started("b");
  EXPECT_EQ(it.out_of_memory("a"),
            "collect a | a retrying (out of memory at 1000 B (exit code 137, SIGKILL); "
            "attempt 2 in 1.0 s)");
  (void)it.collected("a");
  EXPECT_EQ(it.pass(1), " | a ready") << "1500 are not free beside b";
  EXPECT_EQ(it.ended("b", 0), "start a#2 | b succeeded, a starting");
  EXPECT_EQ(it.held().memory, Bytes{1500});
  (void)it.started("a");
  (void)it.out_of_memory("a");
  (void)it.collected("a");
  (void)it.pass(2);
  EXPECT_EQ(it.held().memory, Bytes{2100}) << "no more than there is";
}

TEST(Retries, AFurtherAttemptThatWaitsForSlotsIsTold) {
  Experiment experiment = with_retries("a=2 b=2", {.max = 1});
  Planned it(experiment, {.capacity = Planned::cpus("2")});
  EXPECT_EQ(it.begin(), "start a | a starting");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 1),
            "collect a, start b | a retrying (exit code 1; attempt 2 in 1.0 s), b starting");
  (void)it.collected("a");
  EXPECT_EQ(it.pass(1), " | a ready");
  (void)it.started("b");
  EXPECT_EQ(it.ended("b", 0), "start a#2 | b succeeded, a starting");
}

TEST(Retries, WhatWasLikelyOutOfMemoryGrowsToo) {
  Experiment experiment = with_retries("a", {.max = 1, .grow_memory = 2});
  experiment.trials[0].slots.memory = parse_bytes("1g");
  Planned it(experiment, {.capacity = Slots{.cpus = {}, .memory = parse_bytes("4g"), .gpus = {}}});
  (void)it.begin();
  (void)it.started("a");
  Sighting killed = it.sighting("a", Phase::ended);
  killed.exit_code = 137;
  killed.oom_likely = true;
  EXPECT_EQ(it.seen(killed),
            "collect a | a retrying (perhaps out of memory at 1 GiB (exit code 137, SIGKILL); attempt 2 in "
            "1.0 s)");
  (void)it.collected("a");
  EXPECT_EQ(it.pass(2), "start a#2 | a starting");
  EXPECT_EQ(it.held().memory, parse_bytes("2g"));
}

TEST(Retries, WhatWasLikelyOutOfMemoryIsLostWithAnEngineThatWasAway) {
  Planned it(with_retries("a", {.max = 1}));
  (void)it.begin();
  (void)it.started("a");
  Sighting killed = it.sighting("a", Phase::ended);
  killed.exit_code = 137;
  killed.oom_likely = true;
  EXPECT_EQ(
      it.listed_after_a_break({killed}),
      "collect a | a retrying (lost with its host or engine (exit code 137, SIGKILL); attempt 2 in 0 ms)");
}

TEST(Retries, WhatDependsOnItWaitsForTheLastAttempt) {
  Planned it(with_retries("a s<-a:succeeded f<-a:finished", {.max = 1}));
  (void)it.begin();
  (void)it.started("a");
  (void)it.ended("a", 1);
  (void)it.collected("a");
  EXPECT_EQ(it.pass(1), "start a#2 | a starting");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 0), "start s, start f | a succeeded, s starting, f starting");
}

TEST(Retries, LateNewsOfAnEarlierAttemptChangeNothing) {
  Planned it(with_retries("a", {.max = 1}));
  (void)it.begin();
  (void)it.started("a");
  (void)it.ended("a", 1);
  const Sighting late = it.sighting("a", Phase::ended, 1);
  (void)it.collected("a");
  (void)it.pass(1);
  EXPECT_EQ(it.seen(late), " | ");
  EXPECT_EQ(it.seen(it.sighting("a", Phase::gone, 1)), " | ");
  EXPECT_EQ(it.state("a"), TrialState::starting);
}

TEST(Retries, MemoryDoesNotGrowIntoWhatServicesHold) {
  Experiment experiment = with_retries("!db a", {.max = 1, .grow_memory = 2});
  experiment.trials[0].slots.memory = Bytes{1000};
  experiment.trials[1].slots.memory = Bytes{10000};
  Planned it(experiment, {.capacity = Slots{.cpus = {}, .memory = Bytes{16000}}});
  (void)it.begin();
  (void)it.started("db");
  (void)it.started("a");
  (void)it.out_of_memory("a");
  (void)it.collected("a");
  EXPECT_EQ(it.pass(1), "start a#2 | a starting");
  EXPECT_EQ(it.held().memory, Bytes{16000});
}

TEST(Retries, ALateAnswerOfAnEarlierStopChangesNothing) {
  Experiment experiment = with_retries("a", {.max = 1});
  experiment.trials[0].timeout = Seconds(60);
  Planned it(experiment);
  (void)it.begin();
  (void)it.started("a");
  EXPECT_EQ(it.pass(60), "stop a | a running (timeout)");
  (void)it.ended("a", 143);
  (void)it.collected("a");
  EXPECT_EQ(it.pass(1), "start a#2 | a starting");
  (void)it.started("a");
  EXPECT_EQ(it.not_stopped("a", 1), " | ");
  EXPECT_EQ(it.state("a"), TrialState::running);
}

// Why it was being stopped is on record before it is.
TEST(Retries, ATimeoutThatNobodyLivedToTellIsOne) {
  for (const Cause doom : {Cause::timeout, Cause::none}) {
    Experiment experiment = with_retries("a", {.max = 1});
    experiment.trials[0].timeout = Seconds(5);
    PlannerOptions options;
    options.past = {{.state = TrialState::running, .was_started = true, .ran_at = Instant{}, .doom = doom}};
    Planned it(std::move(experiment), options);
    (void)it.begin();
    Sighting seen = it.sighting("a", Phase::ended);
    seen.exit_code = 0;
    seen.stopped = doom != Cause::none;
    seen.ran_at = Instant{};
    seen.ended_at = Instant{} + std::chrono::seconds(6);
    EXPECT_EQ(it.listed({seen}),
              doom == Cause::none
                  ? " | a succeeded"
                  : "collect a | a retrying (took longer than its timeout of 5.0 s; attempt 2 in 1.0 s)");
  }
}

TEST(Retries, StoppedAfterAProcessInItWasOutOfMemoryIsStopped) {
  Planned it(with_retries("a", {.max = 1}));
  (void)it.begin();
  (void)it.started("a");
  (void)it.adjust({.stopping = {"a"}, .stopper = "alice"});
  Sighting seen = it.sighting("a", Phase::ended);
  seen.exit_code = 143;
  seen.oom = true;
  seen.stopped = true;
  EXPECT_EQ(it.seen(seen), "collect a | a stopped (stopped by alice with `combu stop`)");
}

Experiment growing(const std::string& text, const std::map<std::string, std::int64_t>& memory) {
  Experiment experiment = with_retries(text, {.max = 3, .pause = Seconds(0), .grow_memory = 2});
  for (Trial& trial : experiment.trials) trial.slots.memory = Bytes{memory.at(trial.name)};
  return experiment;
}

void run_out_of_memory(Planned& it, const std::string& name) {
  if (it.state(name) == TrialState::starting) (void)it.started(name);
  (void)it.out_of_memory(name);
  (void)it.collected(name);
  (void)it.pass(0);
}

TEST(Retries, MemoryGrowsAsFarAsItsOwnServicesLeaveSome) {
  // All three services together leave none.
  Planned it(growing("!d1 !d2 !d3 a<-d1 b<-d2 c<-d3",
                     {{"d1", 40}, {"d2", 40}, {"d3", 40}, {"a", 10}, {"b", 10}, {"c", 10}}),
             {.until = Until::ended, .capacity = Slots{.cpus = {}, .memory = Bytes{100}, .gpus = {}}});
  EXPECT_EQ(it.begin(), "start d1, start d2 | d1 starting, d2 starting");
  (void)it.started("d1");
  run_out_of_memory(it, "a");
  EXPECT_EQ(it.held().memory, Bytes{100}) << "40, 40 and 20";
}

// Each could have more when the other is over; the last to ask gets what there is, or both would wait.
TEST(Retries, TwoThatGrowDoNotWaitForEachOther) {
  Planned it(growing("!d1 !d2 a<-d1 b<-d2", {{"d1", 30}, {"d2", 30}, {"a", 25}, {"b", 15}}),
             {.until = Until::ended, .capacity = Slots{.cpus = {}, .memory = Bytes{100}, .gpus = {}}});
  (void)it.begin();
  (void)it.started("d1");
  (void)it.started("d2");
  run_out_of_memory(it, "a");
  EXPECT_EQ(it.state("a"), TrialState::ready) << "50 are free when d2 is over";
  run_out_of_memory(it, "b");
  run_out_of_memory(it, "b");
  EXPECT_EQ(it.held().memory, Bytes{100}) << "40 and not 60 for b";
  (void)it.started("b");
  (void)it.ended("b", 0);
  (void)it.ended("d2", 143);
  EXPECT_EQ(it.held().memory, Bytes{80});
}

TEST(Retries, MemoryDoesNotGrowIntoWhatThoseHoldThatMayStay) {
  Planned it(growing("loader a<-loader", {{"loader", 10}, {"a", 80}}),
             {.until = Until::ended, .capacity = Slots{.cpus = {}, .memory = Bytes{160}, .gpus = {}}});
  (void)it.begin();
  (void)it.started("loader");
  run_out_of_memory(it, "a");
  EXPECT_EQ(it.held().memory, Bytes{160});
}

TEST(MaxFailures, WhatWaitsForSlotsForItsRetryHasFailedOfItsOwn) {
  Experiment experiment = with_retries("a=2 b=2", {.max = 1});
  experiment.trials[1].retries = {};
  experiment.failures_max = 1;
  Planned it(experiment, {.capacity = Planned::cpus("2")});
  (void)it.begin();
  (void)it.started("a");
  (void)it.ended("a", 7);
  (void)it.collected("a");
  (void)it.started("b");
  EXPECT_EQ(it.pass(1), " | a ready");
  EXPECT_EQ(it.ended("b", 3),
            "collect b | b failed (exit code 3), a failed (exit code 7; not tried again: 1 trial has failed, "
            "as many as may (max_failures))");
}

TEST(MaxFailures, NothingStartsAfterThem) {
  Experiment experiment = test::experiment("a b c d<-c:finished");
  experiment.failures_max = 2;
  experiment.parallel_max = 2;
  Planned it(experiment, k_wait);
  (void)it.begin();
  (void)it.started("a");
  (void)it.started("b");
  EXPECT_EQ(it.ended("a", 1), "collect a, start c | a failed (exit code 1), c starting");
  EXPECT_EQ(
      it.ended("b", 1),
      "collect b | b failed (exit code 1), d blocked (not started: 2 trials have failed, as many as may "
      "(max_failures))");
  EXPECT_EQ(it.started("c"), " | c running") << "what has been started goes on";
  EXPECT_EQ(it.ended("c", 0), " | c succeeded");
}

TEST(MaxFailures, WhatWaitsForItsRetryHasFailedOfItsOwn) {
  Experiment experiment = with_retries("a b", {.max = 2, .pause = Seconds(20)});
  experiment.trials[1].retries = {};
  experiment.failures_max = 1;
  Planned it(std::move(experiment));
  (void)it.begin();
  (void)it.started("a");
  (void)it.started("b");
  (void)it.ended("a", 7);
  (void)it.collected("a");
  EXPECT_EQ(
      it.ended("b", 3),
      "collect b | b failed (exit code 3), a failed (exit code 7; not tried again: 1 trial has failed, as "
      "many as may (max_failures))");
}

TEST(Retries, AFurtherAttemptWaitsForTheAnswerOfTheStart) {
  Planned it(with_retries("a", {.max = 1}));
  (void)it.begin();
  (void)it.running("a");
  (void)it.ended("a", 1);
  (void)it.collected("a");
  EXPECT_EQ(it.pass(1), " | ");
  EXPECT_EQ(it.accepted("a"), "start a#2 | a starting");
}

TEST(Retries, FactsTellOfTheAttemptThatTheyAreAbout) {
  Planned it(with_retries("a b<-a:succeeded", {.max = 2, .pause = Seconds(20)}));
  (void)it.begin();
  (void)it.started("a");
  (void)it.ended("a", 7);
  EXPECT_EQ(it.fact("a").attempt, 1);
  (void)it.collected("a");
  (void)it.pass(20);
  EXPECT_EQ(it.fact("a").attempt, 2);
  EXPECT_EQ(it.fact("a").ready_at, at(20)) << "when its pause was over";
  (void)it.started("a");
  (void)it.ended("a", 7);
  (void)it.collected("a");
  (void)it.adjust({.stopping = {"a"}, .stopper = "alice"});
  EXPECT_EQ(it.fact("a").attempt, 2) << "there was no third one";
}

TEST(Retries, TheNextAttemptHasItsOwnBeginning) {
  Planned it(with_retries("a", {.max = 1}));
  (void)it.begin();
  Sighting first = it.sighting("a", Phase::running);
  first.ran_at = at(0);
  (void)it.answered("a", first);
  (void)it.pass(5);
  (void)it.ended("a", 1);
  (void)it.collected("a");
  EXPECT_EQ(it.pass(1), "start a#2 | a starting");
  (void)it.pass(3);
  EXPECT_EQ(it.started("a"), " | a running");
  EXPECT_EQ(it.fact("a").at, at(9));
}

TEST(Retries, NobodyTriesAgainAfterTheLastInterrupt) {
  Planned it(with_retries("a", {.max = 2}));
  (void)it.begin();
  (void)it.started("a");
  (void)it.interrupt(true);
  EXPECT_EQ(it.ended("a", 3), "collect a | a failed (exit code 3)");
}

TEST(Retries, SomebodyStaysForWhatMayBeTriedAgain) {
  Planned it(with_retries("a", {.max = 1}));
  (void)it.begin();
  (void)it.started("a");
  EXPECT_TRUE(it.may_start_more());
  (void)it.ended("a", 0);
  EXPECT_FALSE(it.may_start_more());
  Planned others(with_retries("a b<-a:succeeded", {.max = 1}));
  (void)others.begin();
  (void)others.started("a");
  EXPECT_TRUE(others.may_start_more()) << "b waits, too";
  Planned once("a");
  (void)once.begin();
  (void)once.started("a");
  EXPECT_FALSE(once.may_start_more());
}

TEST(Retries, WhatWaitsForARetryIsWaitedForToo) {
  Planned it(with_retries("a b<-a:succeeded", {.max = 1}));
  (void)it.begin();
  (void)it.started("a");
  (void)it.ended("a", 1);
  (void)it.collected("a");
  EXPECT_FALSE(it.done());
  EXPECT_TRUE(it.may_start_more());
}

// How often it has been lost is counted whichever way that shows.
TEST(Retries, ATrialIsLostOnlySoOften) {
  Planned it(with_retries("a", {.max = 1}));
  (void)it.begin();
  for (int losses = 1; losses <= Planner::k_losses_max; ++losses) {
    (void)it.started("a");
    Sighting seen = it.sighting("a", Phase::ended);
    seen.exit_code = 143;
    seen.stopped = true;
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
  Sighting seen = it.sighting("a", Phase::ended);
  seen.exit_code = 137;
  (void)it.listing_begins_after_a_break();
  EXPECT_EQ(
      it.listed_after_a_break({seen}),
      "collect a#11 | a failed (lost with its host or engine (exit code 137, SIGKILL), after 11 attempts)");
}

TEST(Retries, WhileItIsNotKnownWhoStoppedItItsSlotsAreFree) {
  Planned it(with_retries("a=2 b=2", {.max = 1}), {.capacity = Planned::cpus("2")});
  (void)it.begin();
  (void)it.started("a");
  Sighting seen = it.sighting("a", Phase::ended);
  seen.exit_code = 143;
  seen.stopped = true;
  EXPECT_EQ(
      it.seen(seen),
      "collect a, start b | a retrying (stopped from outside (exit code 143, SIGTERM); tried again if the "
      "engine is being restarted), b starting");
}

TEST(Retries, WhoStopsItMeanwhileIsTold) {
  Planned it(with_retries("a", {.max = 1}));
  (void)it.begin();
  (void)it.started("a");
  Sighting seen = it.sighting("a", Phase::ended);
  seen.exit_code = 143;
  seen.stopped = true;
  (void)it.seen(seen);
  (void)it.collected("a");
  EXPECT_EQ(
      it.adjust({.stopping = {"a"}, .stopper = "alice"}),
      " | a stopped (stopped from outside (exit code 143, SIGTERM); not tried again: stopped by alice with "
      "`combu stop`)");
  EXPECT_EQ(it.listing_begins_after_a_break(), " | ");
  EXPECT_EQ(it.pass(100), " | ");
  EXPECT_EQ(it.state("a"), TrialState::stopped);
}

TEST(Retries, WhoStoppedItShowsHoweverLongItMightHaveTaken) {
  Experiment experiment = with_retries("a", {.max = 1});
  experiment.trials[0].timeout = Seconds(10);
  Planned it(std::move(experiment));
  (void)it.begin();
  (void)it.started("a");
  Sighting seen = it.sighting("a", Phase::ended);
  seen.exit_code = 143;
  seen.stopped = true;
  (void)it.seen(seen);
  (void)it.collected("a");
  EXPECT_EQ(it.pass(70), " | ");
  EXPECT_EQ(it.state("a"), TrialState::retrying);
  EXPECT_EQ(it.pass(5), " | a stopped (stopped from outside (exit code 143, SIGTERM))");
}

TEST(Retries, AnAnswerThatTellsOfAnEndIsOfAnEarlierCall) {
  Planned it(with_retries("a", {.max = 1}));
  (void)it.begin();
  Sighting seen = it.sighting("a", Phase::ended);
  seen.exit_code = 137;
  EXPECT_EQ(
      it.answered("a", seen),
      "collect a | a running, a retrying (lost with its host or engine (exit code 137, SIGKILL); attempt 2 "
      "in 0 ms)");
}

TEST(Retries, OutOfMemoryIsAlsoWhatAProcessInItWasKilledFor) {
  Planned it("a");
  (void)it.begin();
  (void)it.started("a");
  Sighting seen = it.sighting("a", Phase::ended);
  seen.exit_code = 1;
  seen.oom = true;
  EXPECT_EQ(it.seen(seen), "collect a | a failed (out of memory (exit code 1))");
}

TEST(Ending, IsWhatTheContainerTells) {
  const auto told = [](int exit_code, bool oom, bool stopped) {
    Sighting ended{.phase = Phase::ended};
    ended.exit_code = exit_code;
    ended.oom = oom;
    ended.stopped = stopped;
    const Ending ending = ending_of(ended);
    return fmt::format("{} ({})", to_string(state_of(ending)), ending.reason);
  };
  EXPECT_EQ(told(0, false, false), "succeeded ()");
  EXPECT_EQ(told(3, false, false), "failed (exit code 3)");
  EXPECT_EQ(told(137, true, false), "failed (out of memory (exit code 137, SIGKILL))");
  EXPECT_EQ(told(137, true, true), "failed (out of memory (exit code 137, SIGKILL))");
  EXPECT_EQ(told(143, true, true), "stopped (stopped from outside (exit code 143, SIGTERM))");
  EXPECT_EQ(told(143, false, true), "stopped (stopped from outside (exit code 143, SIGTERM))");
}

TEST(MaxFailures, ServicesThatNobodyIsLeftToUseAreStopped) {
  Experiment experiment = test::experiment("!s a w<-s,a:succeeded b<-a");
  experiment.failures_max = 1;
  Planned it(std::move(experiment), k_wait);
  (void)it.begin();
  (void)it.started("s");
  (void)it.started("a");
  EXPECT_EQ(it.not_started("b"),
            "stop s | b failed (could not be started: port is taken), w blocked (not started: 1 trial has "
            "failed, as "
            "many as may (max_failures))");
}

// What w may have when it has been out of memory, and the others have been started.
std::int64_t grown(const std::string& text, const std::map<std::string, std::int64_t>& memory, Until until) {
  Experiment experiment = growing(text, memory);
  std::vector<std::string> others;
  for (Trial& trial : experiment.trials) {
    trial.retries.grow_memory = 100;
    if (trial.name != "w") others.push_back(trial.name);
  }
  Planned it(std::move(experiment), {.starts_in_flight_max = 100,
                                     .until = until,
                                     .capacity = Slots{.cpus = {}, .memory = Bytes{100}, .gpus = {}}});
  (void)it.begin();
  for (const std::string& name : others)
    if (it.state(name) == TrialState::starting) (void)it.started(name);
  run_out_of_memory(it, "w");
  return it.fact("w").slots.memory.count;
}

// z does not run yet.
TEST(Retries, MemoryGrowsAsFarAsThoseLeaveSomeThatRunBesideIt) {
  const std::map<std::string, std::int64_t> memory{{"a", 20}, {"b", 15}, {"w", 10},
                                                   {"x", 1},  {"y", 0},  {"z", 5}};
  EXPECT_EQ(grown("!a !b<-a w<-b y !z<-y:succeeded x<-z", memory, Until::started), 60)
      << "no service is stopped";
  EXPECT_EQ(grown("!a !b<-a w<-b y !z<-y:succeeded x", memory, Until::ended), 60)
      << "z stands as long as the run";
  EXPECT_EQ(grown("!a !b<-a w<-b y !z<-y:succeeded x<-z", memory, Until::ended), 65)
      << "z is stopped some time";
  EXPECT_EQ(grown("!a !b y !z<-y:succeeded x !w", memory, Until::ended), 60)
      << "a service, beside the others";
  EXPECT_EQ(grown("a w<-a x<-a:succeeded", memory, Until::ended), 100) << "a ends some time";
}

// Each could have more when the other is over, and one of the services is about to be tried again.
TEST(Retries, MemoryIsLeftForAServiceThatDoesNotRunYet) {
  Planned it(
      growing("!d1 !d2 !d3 a<-d1 b<-d2,d3", {{"d1", 30}, {"d2", 20}, {"d3", 10}, {"a", 28}, {"b", 12}}),
      {.until = Until::ended, .capacity = Slots{.cpus = {}, .memory = Bytes{100}, .gpus = {}}});
  (void)it.begin();
  for (const char* service : {"d1", "d2", "d3"}) (void)it.started(service);
  run_out_of_memory(it, "a");
  run_out_of_memory(it, "b");
  (void)it.started("b");
  (void)it.ended("d3", 1);
  (void)it.out_of_memory("b");
  EXPECT_EQ(it.collected("d3"), "start d3#2 | d3 starting");
  EXPECT_EQ(it.collected("b"), "start b#3 | b starting");
  EXPECT_EQ(it.fact("b").slots.memory, Bytes{40}) << "not 48";
}

TEST(Retries, MemoryGrowsAsFarAsOtherRunsLeaveSome) {
  for (const auto& [text, left] : {std::pair("w", 50), std::pair("!z w", 45)}) {
    Planned it(growing(text, {{"w", 30}, {"z", 5}}),
               {.until = Until::ended, .capacity = Slots{.cpus = {}, .memory = Bytes{100}, .gpus = {}}});
    (void)it.begin();
    Sighting other = it.sighting("w", Phase::running);
    other.key.run = RunId("other");
    other.id = "x";
    other.slots.memory = Bytes{50};
    (void)it.seen(other);
    run_out_of_memory(it, "w");
    EXPECT_EQ(it.fact("w").slots.memory, Bytes{left}) << text;
  }
}

}  // namespace
}  // namespace combu::test
