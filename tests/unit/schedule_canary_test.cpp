// The planner: one trial of each shape starts first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "schedule_planned.hpp"

namespace combu::test {
namespace {

TEST(Canary, OtherTrialsOfItsShapeWaitForItsSuccess) {
  Planned it(with_canary("a b c"));
  EXPECT_EQ(it.begin(), "start a | a starting");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 0), "start b, start c | a succeeded, b starting, c starting");
}

TEST(Canary, ItsFailureBlocksTheOtherTrials) {
  Planned it(with_canary("a b c<-b:succeeded"));
  (void)it.begin();
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 1),
            "collect a | a failed (exit code 1), b blocked (the canary `a` failed), c blocked "
            "(depends on `b`, which is blocked by `a`)");
}

TEST(Canary, EachShapeHasACanary) {
  Experiment experiment = with_canary("a b c d");
  experiment.trials[2].process.cmd = {"solve", "--file=x"};
  experiment.trials[3].image = "other";
  Planned it(experiment);
  EXPECT_EQ(it.begin(), "start a, start c, start d | a starting, c starting, d starting");
}

TEST(Canary, TheCanaryIsTheFirstTrialByPriorityAndOrder) {
  Experiment experiment = with_canary("a b c d<-a:succeeded");
  experiment.trials[2].priority = 1;
  Planned it(experiment);
  EXPECT_EQ(it.begin(), "start c | c starting");
  EXPECT_EQ(it.state("a"), TrialState::waiting);
  (void)it.started("c");
  EXPECT_EQ(it.ended("c", 0), "start a, start b | c succeeded, a starting, b starting");
}

TEST(Canary, ATrialThatStartsBeforeTheFirstOneIsTheCanary) {
  Experiment experiment = with_canary("a b c");
  experiment.trials[0].image = "other";
  experiment.trials[2].priority = 1;
  experiment.trials[2].depends = {{.trial = "a", .condition = Condition::started}};
  experiment.parallel_max = 1;
  Planned it(experiment);
  (void)it.begin();
  EXPECT_EQ(it.started("a"), " | a running");
  EXPECT_EQ(it.ended("a", 0), "start c | a succeeded, c starting");
}

TEST(Canary, ATrialRemovedByAnEditIsNotTheCanary) {
  Planned it(with_canary("a b c"),
             {.restored = {{.state = TrialState::stopped, .was_started = true}, {}, {}}});
  (void)it.begin();
  EXPECT_EQ(it.listed({}), "start b | b starting");
}

TEST(Canary, ABlockedTrialIsNotTheCanary) {
  Planned it(with_canary("a b c"), {.restored = {{.state = TrialState::blocked}, {}, {}}});
  (void)it.begin();
  EXPECT_EQ(it.listed({}), "start b | b starting");
}

TEST(Canary, TheCanaryIsRetriedLikeAnyTrial) {
  Experiment experiment = with_canary("a b");
  experiment.trials[0].retries.max = 1;
  experiment.trials[0].retries.on.set();
  Planned it(experiment);
  (void)it.begin();
  (void)it.started("a");
  (void)it.ended("a", 1);
  (void)it.collected("a");
  EXPECT_EQ(it.pass(1), "start a#2 | a starting");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 0), "start b | a succeeded, b starting");
}

TEST(Canary, ATrialThatServesOthersIsNotACanary) {
  Planned it(with_canary("server client<-server"));
  EXPECT_EQ(it.begin(), "start server | server starting");
  EXPECT_EQ(it.started("server"), "start client | server running, client starting");
}

TEST(Canary, AfterALostOrStoppedCanaryTheNextTrialIsTheCanary) {
  for (const bool was_away : {true, false}) {
    Experiment experiment = test::experiment("a b c");
    experiment.canary = true;
    Planned it(std::move(experiment));
    it.begin();
    it.started("a");
    Observation seen = it.observation("a", Phase::ended);
    seen.exit_code = 137;
    seen.stopped = true;
    if (was_away) it.listing_begins_after_a_break();
    const std::string text = was_away ? it.listed_after_a_break({seen}) : it.seen(seen);
    EXPECT_THAT(text, testing::HasSubstr(was_away ? "start b | a failed" : "start b | a stopped"));
    EXPECT_THAT(text, testing::HasSubstr("b starting"));
    EXPECT_EQ(it.state("c"), TrialState::waiting);
  }
}

TEST(Canary, AnEarlierFailedCanaryDoesNotBlockReopenedTrials) {
  Experiment experiment = test::experiment("a b c");
  experiment.canary = true;
  PlannerOptions options;
  options.restored = {
      {.state = TrialState::failed, .cause = Cause::error, .exit_code = 1, .was_started = true},
      {.state = TrialState::waiting},
      {.state = TrialState::waiting}};
  Planned it(std::move(experiment), options);
  (void)it.begin();
  EXPECT_EQ(it.listed({}), "start b | b starting") << "the canary of those that are left";
}

TEST(Canary, ARunningTrialIsTheCanaryForTheNextProcess) {
  Experiment experiment = test::experiment("a b c");
  experiment.canary = true;
  PlannerOptions options;
  options.restored = {{.state = TrialState::waiting},
                      {.state = TrialState::running, .was_started = true},
                      {.state = TrialState::waiting}};
  Planned it(std::move(experiment), options);
  (void)it.begin();
  EXPECT_EQ(it.listed({it.observation("b", Phase::running)}), " | ");
  EXPECT_EQ(it.ended("b", 0), "start a, start c | b succeeded, a starting, c starting");
}

TEST(Canary, AFailedCanaryBlocksLaterTrials) {
  Experiment experiment = with_canary("a x b<-x:succeeded");
  experiment.trials[1].image = "other";
  Planned it(std::move(experiment));
  (void)it.begin();
  (void)it.started("a");
  (void)it.started("x");
  EXPECT_EQ(it.ended("a", 1), "collect a | a failed (exit code 1)");
  EXPECT_EQ(it.ended("x", 0), " | x succeeded, b blocked (the canary `a` failed)");
}

TEST(Canary, ASucceededTrialIsTheCanaryForTheNextProcess) {
  Planned it(with_canary("a b c"),
             {.restored = {{.state = TrialState::succeeded, .was_started = true}, {}, {}}});
  (void)it.begin();
  EXPECT_EQ(it.listed({}), "start b, start c | b starting, c starting");
}

}  // namespace
}  // namespace combu::test
