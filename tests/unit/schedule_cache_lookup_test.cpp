// The planner: cache lookups before trials start.
#include <gtest/gtest.h>

#include <string>

#include "schedule_planned.hpp"

namespace combu::test {
namespace {

// All trials except services have `cache`.
Experiment with_cache(const std::string& text) {
  Experiment experiment = test::experiment(text);
  for (Trial& trial : experiment.trials) trial.cache.on = !trial.service;
  return experiment;
}

constexpr PlannerOptions k_recall{.until = Until::ended, .looks_up_cache = true};

TEST(CacheUse, ATrialWithACacheHitIsSkipped) {
  Planned it(with_cache("a b"), k_recall);
  EXPECT_EQ(it.begin(), "recall a, recall b | ");
  EXPECT_FALSE(it.done());
  EXPECT_EQ(it.looked_up("a", "as before"), " | a skipped (as before)");
  EXPECT_EQ(it.looked_up("b"), "start b | b starting");
  (void)it.started("b");
  (void)it.ended("b", 0);
  EXPECT_TRUE(it.done());
}

TEST(CacheUse, OnlyTrialsWithCacheAreLookedUp) {
  Planned it(with_cache("a"), k_wait);
  EXPECT_EQ(it.begin(), "start a | a starting");
  Planned without(test::experiment("a"), k_recall);
  EXPECT_EQ(without.begin(), "start a | a starting");
}

TEST(CacheUse, ASkippedTrialCountsAsASuccessForItsDependents) {
  Planned it(with_cache("a b<-a:succeeded c<-a:finished d<-a"), k_recall);
  EXPECT_EQ(it.begin(), "recall a, recall b, recall c, recall d | ");
  for (const char* other : {"b", "c", "d"}) EXPECT_EQ(it.looked_up(other), " | ") << other;
  EXPECT_EQ(it.looked_up("a", "before"),
            "start b, start c, start d | a skipped (before), b starting, c starting, d starting");
}

TEST(CacheUse, ASkippedTrialDoesNotNeedItsDependencies) {
  Planned it(with_cache("a b<-a:succeeded"), k_recall);
  (void)it.begin();
  EXPECT_EQ(it.looked_up("b", "before"), " | b skipped (before)");
  EXPECT_EQ(it.looked_up("a"), "start a | a starting");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 3), "collect a | a failed (exit code 3)");
  EXPECT_EQ(it.state("b"), TrialState::skipped);
}

TEST(CacheUse, AServiceWaitsForAllLookups) {
  Planned it(with_cache("!s a<-s b<-s"), k_recall);
  EXPECT_EQ(it.begin(), "recall a, recall b | ");
  EXPECT_EQ(it.looked_up("a", "before"), " | a skipped (before)");
  EXPECT_EQ(it.looked_up("b"), "start s | s starting");
}

TEST(CacheUse, AServiceOfSkippedTrialsIsNotStarted) {
  Planned it(with_cache("!s !all a<-s b"), k_recall);
  (void)it.begin();
  (void)it.looked_up("a", "before");
  EXPECT_EQ(it.looked_up("b"), "start all, start b | s stopped, all starting, b starting");
  Planned none(with_cache("!s !all a<-s"), k_recall);
  (void)none.begin();
  EXPECT_EQ(none.looked_up("a", "before"), " | a skipped (before), s stopped, all stopped");
  EXPECT_TRUE(none.done());
}

TEST(CacheUse, ATrialThatOnlyHasToRunForOthersIsNotLookedUp) {
  Planned it(with_cache("loader a<-loader"), k_recall);
  EXPECT_EQ(it.begin(), "recall a | ");
  EXPECT_EQ(it.looked_up("a"), "start loader | loader starting");
}

TEST(CacheUse, ALookupWaitsForTheTrialsOfTheInputs) {
  Experiment experiment = with_cache("a b<-a:succeeded");
  experiment.trials[0].outputs = {{.path = "/out"}};
  experiment.trials[1].inputs = {{.from = "/out", .trial = "a", .to = "/in"}};
  Planned it(experiment, k_recall);
  EXPECT_EQ(it.begin(), "recall a | ");
  EXPECT_EQ(it.looked_up("a", "before"), "recall b | a skipped (before)");
  EXPECT_EQ(it.looked_up("b", "too"), " | b skipped (too)");
  Planned anew(experiment, k_recall);
  (void)anew.begin();
  EXPECT_EQ(anew.looked_up("a"), "start a | a starting");
  (void)anew.started("a");
  (void)anew.ended("a", 0);
  EXPECT_EQ(anew.collected("a"), "recall b | a succeeded");
  EXPECT_EQ(anew.looked_up("b"), "start b | b starting");
}

TEST(CacheUse, ATrialThatAPersonRunsAgainIsNotLookedUp) {
  Planned it(with_cache("a b"),
             {.until = Until::ended,
              .looks_up_cache = true,
              .restored = {{.anew = true}, {.state = TrialState::skipped, .reason = "before"}}});
  EXPECT_EQ(it.begin(), " | ");
  EXPECT_EQ(it.listed({}), "start a | a starting");
  EXPECT_EQ(it.state("b"), TrialState::skipped);
}

TEST(CacheUse, ATrialSkippedByAnEarlierProcessLetsItsDependentsStart) {
  Planned it(with_cache("a b<-a:succeeded c<-a"),
             {.until = Until::ended, .restored = {{.state = TrialState::skipped}, {}, {}}});
  EXPECT_EQ(it.begin(), " | ");
  EXPECT_EQ(it.listed({}), "start b, start c | b starting, c starting");
}

TEST(CacheUse, LateAnswersHaveNoEffect) {
  Experiment experiment = with_cache("a b");
  experiment.trials[1].cache.on = false;
  experiment.failures_max = 1;
  Planned it(experiment, k_recall);
  EXPECT_EQ(it.begin(), "recall a, start b | b starting");
  EXPECT_EQ(it.not_started("b").substr(0, 12), " | b failed ");
  EXPECT_EQ(it.state("a"), TrialState::blocked);
  EXPECT_EQ(it.looked_up("a", "before"), " | ");
  EXPECT_EQ(it.looked_up("a", "again"), " | ");
  EXPECT_TRUE(it.done());
}

TEST(CacheUse, ASkippedTrialReplacesTheCanaryOfItsShape) {
  Experiment experiment = with_canary("a b c");
  for (TrialIndex trial : {1U, 2U}) experiment.trials[trial].cache.on = true;
  Planned it(experiment, k_recall);
  EXPECT_EQ(it.begin(), "recall b, recall c, start a | a starting");
  EXPECT_EQ(it.looked_up("b"), " | ") << "a is the canary";
  EXPECT_EQ(it.looked_up("c", "before"), "start b | c skipped (before), b starting");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 0), " | a succeeded");
}

TEST(CacheUse, ASkippedTrialCountsAsHealthyForItsDependents) {
  Planned it(with_cache("a b<-a:healthy,a:succeeded"), k_recall);
  (void)it.begin();
  EXPECT_EQ(it.looked_up("b"), " | ");
  EXPECT_EQ(it.looked_up("a", "before"), "start b | a skipped (before), b starting");
}

TEST(CacheUse, ASkippedTrialIsTheCanaryOfLaterTrials) {
  Experiment experiment = with_canary("a b<-a:succeeded c<-a:succeeded");
  experiment.trials[0].cache.on = true;
  Planned it(experiment, k_recall);
  EXPECT_EQ(it.begin(), "recall a | ");
  EXPECT_EQ(it.looked_up("a", "before"), "start b, start c | a skipped (before), b starting, c starting");
}

// Conditions on other trials do not delay the lookup.
TEST(CacheUse, ALookupWaitsOnlyForTheInputs) {
  Experiment experiment = with_cache("a b<-a:succeeded,c:succeeded c d<-c:succeeded");
  experiment.trials[0].outputs = {{.path = "/out"}};
  experiment.trials[1].inputs = {{.from = "/out", .trial = "a", .to = "/in"}};
  Planned it(experiment, k_recall);
  EXPECT_EQ(it.begin(), "recall a, recall c, recall d | ");
  EXPECT_EQ(it.looked_up("a", "before"), "recall b | a skipped (before)");
  EXPECT_EQ(it.looked_up("c"), "start c | c starting");
  EXPECT_EQ(it.looked_up("b", "too"), " | b skipped (too)");

  PlannerOptions options = k_recall;
  options.restored = {{.state = TrialState::succeeded, .was_started = true}, {}, {}, {}};
  Planned later(experiment, options);
  EXPECT_EQ(later.begin(), "recall c, recall d, recall b | ");
}

TEST(CacheUse, ARunningTrialIsNotLookedUp) {
  Experiment experiment = with_cache("a b<-a:succeeded");
  experiment.trials[0].outputs = {{.path = "/out"}};
  experiment.trials[1].inputs = {{.from = "/out", .trial = "a", .to = "/in"}};
  PlannerOptions options = k_recall;
  options.restored = {{.state = TrialState::succeeded, .was_started = true},
                      {.state = TrialState::running, .was_started = true}};
  Planned it(experiment, options);
  EXPECT_EQ(it.begin(), " | ");
  EXPECT_EQ(it.listed({it.observation("b", Phase::running)}), " | ");
}

}  // namespace
}  // namespace combu::test
