// The planner: CPUs and memory of the run and of other runs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "schedule_planned.hpp"

namespace combu::test {
namespace {

TEST(Slots, SlotsAreNeverAssignedTwice) {
  Planned it("a=3 b=2 c=0.5 d", with_cpus("4"));
  EXPECT_EQ(it.begin(), "start a, start c, start d | a starting, c starting, d starting");
  EXPECT_EQ(it.held(), Planned::cpus("3.5"));
  EXPECT_EQ(it.ended("a", 0), "start b | a running, a succeeded, b starting");
  EXPECT_EQ(it.held(), Planned::cpus("2.5"));
}

TEST(Slots, NoSlotsAreAssignedBeforeTheFirstListing) {
  const Experiment experiment = test::experiment("a=1 b");
  const Plan plan = test::plan(experiment);
  Planner planner(RunId("run1"), experiment, plan, with_cpus("4"));
  const Step begun = planner.step(Begin{}, {});
  ASSERT_EQ(begun.commands.size(), 1U);
  EXPECT_EQ(std::get<StartCommand>(begun.commands[0]).trial, 1U);
  EXPECT_EQ(planner.step(Listed{}, {}).commands.size(), 1U);
}

TEST(Slots, SlotsOfAFailedStartAreFreeAgain) {
  Planned it("a=3 b=3", with_cpus("4"));
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_EQ(it.not_started("a"), "start b | a failed (could not be started: port is taken), b starting");
}

TEST(Slots, SlotsAreNotLimitedWithoutACapacity) {
  Planned it("a=300 b=2");
  EXPECT_EQ(it.begin(), "start a, start b | a starting, b starting");
}

TEST(Slots, SlotsOfOtherRunsCount) {
  Planned it("a=2 b=2 c=2", with_cpus("4"));
  EXPECT_EQ(it.other("x", Phase::running), " | ");
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_EQ(it.other("x", Phase::running), " | ") << "told twice, held once";
  EXPECT_EQ(it.other("x", Phase::ended), "start b | b starting");
  EXPECT_EQ(it.other("x", Phase::running), " | ") << "told late";
  EXPECT_EQ(it.ended("a", 0), "start c | a running, a succeeded, c starting");
}

TEST(Slots, AListingReplacesTheSlotsOfOtherRuns) {
  Planned it("a=2 b=2", with_cpus("4"));
  EXPECT_EQ(it.other("x", Phase::running), " | ");
  EXPECT_EQ(it.other("y", Phase::created), " | ") << "has not started, and need not";
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_EQ(it.listed({}), "start b | b starting") << "x is not there any more";
}

TEST(Slots, ALargeTrialIsOvertakenALimitedNumberOfTimes) {
  std::string text = "first=1 large=4";
  for (std::size_t i = 0; i < Planner::k_overtakes_max + 5; ++i) text += fmt::format(" s{}=1", i);
  Planned it(text, with_cpus("4"));
  EXPECT_EQ(
      it.begin(),
      "start first, start s0, start s1, start s2 | first starting, s0 starting, s1 starting, s2 starting");
  std::size_t overtakes = 3;
  for (; overtakes < Planner::k_overtakes_max; ++overtakes) {
    const std::string over = fmt::format("s{}", overtakes - 3);
    const std::string next = fmt::format("s{}", overtakes);
    ASSERT_EQ(it.ended(over, 0),
              fmt::format("start {1} | {0} running, {0} succeeded, {1} starting", over, next));
  }
  for (std::size_t i = overtakes - 3; i < overtakes; ++i) {
    ASSERT_EQ(it.ended(fmt::format("s{}", i), 0), fmt::format(" | s{0} running, s{0} succeeded", i));
  }
  EXPECT_EQ(it.ended("first", 0), "start large | first running, first succeeded, large starting");
}

TEST(Slots, SlotsOfOtherRunsDelayOnlyTrialsThatNeedThem) {
  std::string text = "large=4";
  for (std::size_t i = 0; i < 2 * Planner::k_overtakes_max; ++i) text += fmt::format(" s{}=2", i);
  Planned it(text, with_cpus("4"));
  (void)it.other("x", Phase::running);
  EXPECT_EQ(it.begin(), "start s0 | s0 starting");
  for (std::size_t i = 0; i + 1 < 2 * Planner::k_overtakes_max; ++i) {
    ASSERT_EQ(it.ended(fmt::format("s{}", i), 0),
              fmt::format("start s{1} | s{0} running, s{0} succeeded, s{1} starting", i, i + 1));
  }
}

TEST(Slots, ATrialThatCanNeverFitDelaysNoOtherTrial) {
  std::string text = "cache large use<-cache";
  std::map<std::string, std::string> cpus{{"cache", "0.5"}, {"large", "2"}};
  for (int i = 0; i < 40; ++i) {
    text += " s" + std::to_string(i);
    cpus["s" + std::to_string(i)] = "1";
  }
  Planned it(with_cpus(text, cpus), {.until = Until::ended, .capacity = Planned::cpus("2")});
  (void)it.begin();
  (void)it.started("cache");
  int ran = 0;
  for (int i = 0; i < 40 && it.state("s" + std::to_string(i)) == TrialState::starting; ++i, ++ran) {
    (void)it.started("s" + std::to_string(i));
    (void)it.ended("s" + std::to_string(i), 0);
  }
  EXPECT_EQ(ran, 40) << "`large` could never have the CPUs that `cache` holds";
}

TEST(Slots, EachWaitingTrialIsOvertakenALimitedNumberOfTimes) {
  std::string text = "gpu0 gpu1 large";
  std::map<std::string, std::string> cpus{{"large", "2"}};
  for (int i = 0; i < 90; ++i) {
    text += " s" + std::to_string(i);
    cpus["s" + std::to_string(i)] = "1";
  }
  Experiment experiment = with_cpus(text, cpus);
  experiment.trials[0].gpus = GpuRequest{.count = 1};
  experiment.trials[1].gpus = GpuRequest{.count = 1};
  PlannerOptions options{.until = Until::ended, .capacity = Planned::cpus("2")};
  options.gpus = {{.id = "0", .uuid = {}, .kind = {}, .memory = {}}};
  options.capacity->gpus = {"0"};
  Planned it(std::move(experiment), options);
  // `gpu1` is the first in line all the time, and waits for the GPU.
  (void)it.begin();
  (void)it.started("gpu0");
  int overtook = 0;
  for (int i = 0; i < 90 && it.state("large") == TrialState::ready; ++i) {
    const std::string name = "s" + std::to_string(i);
    if (it.state(name) != TrialState::starting) break;
    (void)it.started(name);
    (void)it.ended(name, 0);
    ++overtook;
  }
  EXPECT_EQ(it.state("large"), TrialState::starting);
  EXPECT_LE(overtook, 34);
}

TEST(Slots, ATrialThatLosesSlotsToAKnownClaimPauses) {
  Planned it(with_cpus("a", {{"a", "1"}}), {.capacity = Planned::cpus("2")});
  (void)it.begin();
  Observation rival{.key = {.run = RunId("other"), .trial = "r"},
                    .experiment = "other",
                    .id = "r1",
                    .phase = Phase::created,
                    .slots = Planned::cpus("1")};
  EXPECT_EQ(it.lost_to("a", rival), "start a | a ready, a starting") << "one of two CPUs is free";
  EXPECT_EQ(it.lost_to("a", rival), " | a ready") << "nothing has been learnt";
  EXPECT_EQ(it.pass(1.1), "start a | a starting");
}

TEST(Slots, ServicesLeaveRoomForTheirDependents) {
  Planned it(with_cpus("!d1 !d2 s1<-d1 s2<-d2", {{"d1", "1"}, {"d2", "1"}, {"s1", "1"}, {"s2", "1"}}),
             {.until = Until::ended, .capacity = Planned::cpus("2")});
  EXPECT_EQ(it.begin(), "start d1 | d1 starting");
  EXPECT_EQ(it.started("d1"), "start s1 | d1 running, s1 starting");
  EXPECT_EQ(it.started("s1"), " | s1 running");
  EXPECT_EQ(it.ended("s1", 0), "stop d1 | s1 succeeded");
  EXPECT_EQ(it.ended("d1", 143), "start d2 | d1 stopped, d2 starting");
  EXPECT_EQ(it.started("d2"), "start s2 | d2 running, s2 starting");
}

TEST(Slots, AChainOfServicesStarts) {
  Planned it(with_cpus("!a !b<-a w<-b", {{"a", "1"}, {"b", "1"}, {"w", "1"}}),
             {.until = Until::ended, .capacity = Planned::cpus("3")});
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_EQ(it.started("a"), "start b | a running, b starting");
  EXPECT_EQ(it.started("b"), "start w | b running, w starting");
}

Observation rival(const std::string& run, const std::string& trial) {
  return {.key = {.run = RunId(run), .trial = trial},
          .experiment = "other",
          .id = "r1",
          .phase = Phase::created,
          .slots = Planned::cpus("1")};
}

TEST(Slots, ATrialThatLosesItsSlotsWaits) {
  for (const auto& [run, trial] : {std::pair("run2", "x"), std::pair("run2", "a"), std::pair("run1", "b")}) {
    Planned it("a=1 b=1", {.starts_in_flight_max = 1, .capacity = Planned::cpus("1")});
    EXPECT_EQ(it.begin(), "start a | a starting");
    EXPECT_EQ(it.lost_to("a", rival(run, trial)), " | a ready") << run << " " << trial;
  }
}

TEST(Slots, SlotsOfOtherRunsCountOnceInEachListing) {
  Planned it("a=3", with_cpus("4"));
  Observation other = holder_of("x", {}, Phase::running);
  other.slots = Planned::cpus("2");
  (void)it.seen(other);
  EXPECT_EQ(it.begin(), " | ");
  EXPECT_EQ(it.listed({other}), " | ");
  EXPECT_EQ(it.listed({other}), " | ");
  EXPECT_EQ(it.listed({}), "start a | a starting");
}

TEST(Slots, AnAttemptRestartedByHandHoldsItsSlots) {
  Planned it("a=3", with_cpus("4"));
  EXPECT_EQ(it.other("x", Phase::running), " | ");
  EXPECT_EQ(it.other("x", Phase::ended), " | ");
  Observation other = holder_of("x", {}, Phase::running);
  other.slots = Planned::cpus("2");
  EXPECT_EQ(it.listed({other}), " | ");
  EXPECT_EQ(it.begin(), " | ");
  other.phase = Phase::ended;
  EXPECT_EQ(it.listed({other}), "start a | a starting");
}

TEST(Slots, ACreatedAttemptHoldsSlotsOnlyWhenItRuns) {
  Planned it("a=3", with_cpus("4"));
  EXPECT_EQ(it.other("x", Phase::created), " | ");
  EXPECT_EQ(it.other("x", Phase::running), " | ");
  EXPECT_EQ(it.begin(), " | ");
}

// Starts `holder`, and then many copies of `small` one after another, which overtake `first`. Returns the
// number of copies that ran.
std::size_t overtake(const Trial& holder, const Trial& first, const Trial& small) {
  Experiment experiment;
  experiment.trials = {holder, first};
  experiment.trials[0].name = "holder";
  experiment.trials[1].name = "first";
  const std::size_t count = 2 * Planner::k_overtakes_max;
  for (std::size_t i = 0; i < count; ++i) {
    experiment.trials.push_back(small);
    experiment.trials.back().name = fmt::format("s{}", i);
  }
  PlannerOptions options = with_gpus();
  options.capacity->cpus = parse_cpus("4");
  options.capacity->memory = Bytes{100};
  Planned it(std::move(experiment), std::move(options));
  (void)it.begin();
  EXPECT_EQ(it.state("holder"), TrialState::starting);
  std::size_t ran = 0;
  for (; ran < count && it.state(fmt::format("s{}", ran)) == TrialState::starting; ++ran)
    (void)it.ended(fmt::format("s{}", ran), 0);
  EXPECT_EQ(it.state("first"), TrialState::ready);
  (void)it.ended("holder", 0);
  EXPECT_EQ(it.state("first"), TrialState::starting);
  return ran;
}

TEST(Slots, OnlyStartsThatTakeNeededSlotsCountAsOvertakes) {
  const auto wants = [](const char* cpus, std::int64_t memory, GpuRequest gpus = {}) {
    Trial trial{.image = "image"};
    trial.slots = {.cpus = parse_cpus(cpus), .memory = Bytes{memory}, .gpus = {}};
    trial.gpus = std::move(gpus);
    return trial;
  };
  const GpuRequest any{.count = 1};
  const GpuRequest large{.count = 1, .kind = "h100"};
  constexpr std::size_t k_max = Planner::k_overtakes_max;
  EXPECT_EQ(overtake(wants("0", 100), wants("3", 5), wants("2", 0)), k_max)
      << "it waits for memory, and would wait for CPUs, too";
  EXPECT_EQ(overtake(wants("4", 0), wants("2", 40), wants("0", 60)), 2 * k_max)
      << "all the memory that it wants is left";
  EXPECT_EQ(overtake(wants("0", 100), wants("2", 50), wants("1", 0)), 2 * k_max) << "they take no memory";
  EXPECT_EQ(overtake(wants("2", 0), wants("3", 0, any), wants("2", 0)), k_max) << "they take CPUs";
  EXPECT_EQ(overtake(wants("2", 0), wants("3", 0, any), wants("2", 0, any)), k_max) << "they take CPUs";
  EXPECT_EQ(overtake(wants("2", 0), wants("3", 0, large), wants("0", 0, large)), k_max)
      << "they take the GPU";
  EXPECT_EQ(overtake(wants("2", 0), wants("3", 0, any), wants("0", 0, large)), 2 * k_max)
      << "two GPUs are left";
}

TEST(Slots, OvertakesAreCountedForEachTrial) {
  std::string text = "long=1 large=4 next=1^9<-large:finished larger=4";
  for (std::size_t i = 0; i < 2 * Planner::k_overtakes_max; ++i) text += fmt::format(" s{}=1", i);
  Planned it(text, with_cpus("4"));
  (void)it.begin();
  std::size_t ran = 0;
  while (it.state(fmt::format("s{}", ran)) == TrialState::starting)
    (void)it.ended(fmt::format("s{}", ran++), 0);
  EXPECT_EQ(ran, Planner::k_overtakes_max);
  EXPECT_EQ(it.ended("long", 0), "start large | long running, long succeeded, large starting");
  (void)it.ended("large", 0);
  EXPECT_EQ(it.state("next"), TrialState::starting);
  EXPECT_EQ(it.state("larger"), TrialState::ready);
  EXPECT_EQ(it.state(fmt::format("s{}", ran)), TrialState::starting);
}

// While attempts run, a scan visits only some of the ready trials, because another scan will follow.
TEST(Slots, TrialsBehindManyOthersAreTriedWhenTheRunIsIdle) {
  Experiment experiment = test::experiment("busy=1 s=1");
  for (std::int64_t i = 0; i < 1500; ++i) {
    Trial large{.name = fmt::format("l{}", i), .image = "image", .priority = 1};
    large.slots = {.cpus = parse_cpus("4"), .memory = Bytes{i + 1}, .gpus = {}};
    experiment.trials.push_back(std::move(large));
  }
  PlannerOptions options = with_cpus("3");
  options.capacity->memory = Bytes{10000};
  options.restored.resize(experiment.trials.size());
  options.restored[0] = {.state = TrialState::running, .was_started = true};
  Planned it(std::move(experiment), options);
  (void)it.begin();
  EXPECT_EQ(it.listed({it.observation("busy", Phase::running)}), " | ");
  EXPECT_EQ(it.ended("busy", 0), "start s | busy succeeded, s starting");
}

TEST(Slots, ANewHeadOfALineIsOvertakenAsOften) {
  std::string text = "long=1 large=4 trigger urgent=4^1<-trigger";
  for (std::size_t i = 0; i < 2 * Planner::k_overtakes_max; ++i) text += fmt::format(" s{}=1", i);
  Planned it(text, with_cpus("4"));
  (void)it.begin();
  EXPECT_EQ(it.started("trigger"), " | trigger running");
  std::size_t ran = 0;
  while (it.state(fmt::format("s{}", ran)) == TrialState::starting)
    (void)it.ended(fmt::format("s{}", ran++), 0);
  EXPECT_EQ(ran, 3 + Planner::k_overtakes_max) << "three have overtaken `large`";
  EXPECT_EQ(it.ended("long", 0), "start urgent | long running, long succeeded, urgent starting");
}

}  // namespace
}  // namespace combu::test
