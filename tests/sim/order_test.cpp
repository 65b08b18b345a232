// Order and progress without faults, in simulated time.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "experiments.hpp"
#include "simulation.hpp"

namespace combu::test {
namespace {

constexpr PlannerOptions k_wait{.until = Until::ended};

TEST(Order, ASlowTrialOfAWaveDoesNotDelayTheNextWave) {
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

TEST(Order, StartsInFlightReachTheLimitAndNotMore) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += " t" + std::to_string(i);
  const combu::Run run = test::run(text);
  const Plan plan = test::plan(run.experiment);
  Simulation simulation(run, plan, {.starts_in_flight_max = 7}, {});
  EXPECT_THAT(simulation.play(), testing::IsEmpty());
  EXPECT_EQ(simulation.starts_in_flight_seen_max(), 7U);
  EXPECT_EQ(simulation.truth().size(), 100U);
}

TEST(Order, AServiceRunsWhileItIsNeededAndEndsThen) {
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

// Services that several trials share, on a host that can hold only a few. Every trial that is not refused
// must end.
TEST(Order, SharedServicesOfAnyShapeStartAndEnd) {
  std::size_t played = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto below = [&random](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
    combu::Run run{.id = RunId("run1"), .experiment = {.name = "test", .file = "/test"}};
    const std::size_t services = 2 + below(6);
    for (std::size_t i = 0; i < services; ++i) {
      Trial one = trial(fmt::format("!s{}={}", i, below(3)), "sleep 1000000000");
      one.healthcheck = Healthcheck{.test = {"CMD", "true"}, .interval = Seconds(1)};
      if (below(4) == 0) one.gpus = GpuRequest{.count = 1};
      if (i > 0 && below(4) == 0) one.depends.push_back({.trial = fmt::format("s{}", below(i))});
      run.experiment.trials.push_back(std::move(one));
    }
    for (std::size_t i = 0; i < 20; ++i) {
      Trial one = trial(fmt::format("t{}={}", i, below(4)), fmt::format("sleep {}", below(5)));
      if (below(4) == 0) one.gpus = GpuRequest{.count = 1};
      if (one.gpus && below(2) == 0) one.gpus = GpuRequest{.count = 1, .ids = {std::to_string(below(3))}};
      for (std::size_t need = below(3); need > 0; --need) {
        const std::string name = fmt::format("s{}", below(services));
        if (std::ranges::find(one.depends, name, &Depend::trial) == one.depends.end())
          one.depends.push_back({.trial = name, .condition = Condition::healthy});
      }
      run.experiment.trials.push_back(std::move(one));
    }
    PlannerOptions options{.starts_in_flight_max = 1 + below(8), .until = Until::ended};
    options.gpus = World({.gpus = 3}).gpus();
    options.capacity = Slots{.cpus = parse_cpus("6"), .memory = {}, .gpus = {}};
    for (const Gpu& gpu : options.gpus) options.capacity->gpus.push_back(gpu.id);
    if (!check_slots(run.experiment, *options.capacity, options.gpus).empty()) continue;
    ++played;
    const Plan plan = test::plan(run.experiment);
    Simulation simulation(run, plan, options, {.seed = seed, .gpus = 3});
    ASSERT_THAT(simulation.play(), testing::IsEmpty());
    EXPECT_EQ(simulation.planner().counts()[static_cast<std::size_t>(TrialState::succeeded)], 20U);
  }
  EXPECT_GT(played, 50U);
}

}  // namespace
}  // namespace combu::test
