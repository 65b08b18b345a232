// Order and liveness without faults, in virtual time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments.hpp"
#include "simulation.hpp"

namespace combu::test {
namespace {

constexpr PlannerOptions k_wait{.until = Until::ended};

TEST(Order, SlowTrialOfAWaveDoesNotHoldUpTheNextOne) {
  combu::Run run{.id = RunId("run1"), .experiment = {.name = "test", .file = "/test"}};
  run.experiment.trials = {trial("slow", "sleep 1000"), trial("quick", "sleep 1"),
                           trial("after<-quick:succeeded", "sleep 1"),
                           trial("last<-slow:succeeded", "sleep 1")};
  const Plan plan = test::plan(run.experiment);
  Simulation simulation(run, plan, k_wait, {});
  EXPECT_THAT(simulation.play(), testing::IsEmpty());
  EXPECT_LT(simulation.elapsed(), Seconds(1003));
  EXPECT_EQ(simulation.planner().counts()[static_cast<std::size_t>(TrialState::succeeded)], 4U);
}

TEST(Order, StartsInFlightReachTheBoundAndNotMore) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += " t" + std::to_string(i);
  const combu::Run run = test::run(text);
  const Plan plan = test::plan(run.experiment);
  Simulation simulation(run, plan, {.starts_in_flight_max = 7}, {});
  EXPECT_THAT(simulation.play(), testing::IsEmpty());
  EXPECT_EQ(simulation.starts_in_flight_seen_max(), 7U);
  EXPECT_EQ(simulation.truth().size(), 100U);
}

TEST(Order, ServiceStandsWhileItIsUsedAndEndsThen) {
  combu::Run run{.id = RunId("run1"), .experiment = {.name = "test", .file = "/test"}};
  run.experiment.trials = {trial("!db", "sleep 100000"), trial("a<-db:healthy", "sleep 5"),
                           trial("b<-a:succeeded,db", "sleep 5")};
  run.experiment.trials[0].healthcheck = Healthcheck{.test = {"CMD", "true"}, .interval = Seconds(2)};
  const Plan plan = test::plan(run.experiment);
  Simulation simulation(run, plan, k_wait, {});
  EXPECT_THAT(simulation.play(), testing::IsEmpty());
  EXPECT_EQ(simulation.planner().state(0), TrialState::stopped);
  EXPECT_EQ(simulation.planner().state(2), TrialState::succeeded);
  EXPECT_LT(simulation.elapsed(), Seconds(15));
}

}  // namespace
}  // namespace combu::test
