// The planner: GPUs of the run and of other runs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schedule/gpus.hpp"
#include "schedule_planned.hpp"

namespace combu::test {
namespace {

TEST(Gpus, EachGpuIsAssignedByIdToOneAttemptAtATime) {
  Planned it(wanting({1, 1, 2, 1}), with_gpus());
  EXPECT_EQ(it.begin(), "start a, start b, start d | a starting, b starting, d starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("0", "1", "2"));
  EXPECT_EQ(it.ended("b", 0), " | b running, b succeeded");
  EXPECT_EQ(it.ended("a", 0), "start c | a running, a succeeded, c starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("2", "0", "1"));
}

TEST(Gpus, GpusThatOtherRunsHoldAreNotAssigned) {
  Planned it(wanting({1, 1}), with_gpus());
  (void)it.seen(holder_of("x", {"0", "2"}, Phase::running));
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("1"));
  EXPECT_EQ(it.seen(holder_of("x", {"0", "2"}, Phase::ended)), "start b | b starting");
}

TEST(Gpus, AGpuThatAnotherRunClaimedFirstIsLeftToIt) {
  Planned it(wanting({1}), with_gpus());
  (void)it.begin();
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("0"));
  EXPECT_EQ(it.lost_to("a", holder_of("x", {"0"}, Phase::created)), "start a | a ready, a starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("1"));
}

TEST(Gpus, AClaimWhoseAttemptDoesNotRunExpires) {
  Planned it(wanting({3}), with_gpus());
  (void)it.begin();
  EXPECT_EQ(it.lost_to("a", holder_of("x", {"0"}, Phase::created)), " | a ready");
  EXPECT_EQ(it.pass(9), " | ");
  EXPECT_EQ(it.pass(1), "start a | a starting");
}

TEST(Gpus, AReleasedClaimIsFreeAtOnce) {
  Planned it(wanting({3}), with_gpus());
  (void)it.begin();
  (void)it.lost_to("a", holder_of("x", {"0"}, Phase::created));
  EXPECT_EQ(it.seen(holder_of("x", {"0"}, Phase::gone)), "start a | a starting");
}

TEST(Gpus, AContainerOfThisRunThatIsNoTrialReleasesItsClaim) {
  Planned it(wanting({3}), with_gpus());
  (void)it.begin();
  Observation holder = holder_of("x", {"0"}, Phase::created);
  holder.key.run = RunId("run1");
  EXPECT_EQ(it.lost_to("a", holder), " | a ready");
  holder.phase = Phase::gone;
  EXPECT_EQ(it.seen(holder), "start a | a starting");
}

TEST(Gpus, AClaimReleasedBeforeAListingHoldsNothing) {
  Planned it(wanting({2}), with_gpus());
  (void)it.begin();
  (void)it.seen(holder_of("x1", {"0", "1"}, Phase::gone));
  (void)it.listed({});
  EXPECT_EQ(it.lost_to("a", holder_of("x1", {"0", "1"}, Phase::created)), " | a ready");
  EXPECT_EQ(it.pass(1), "start a | a starting");
}

TEST(Gpus, AClaimWhoseAttemptRunsDoesNotExpire) {
  Planned it(wanting({3}), with_gpus());
  (void)it.begin();
  (void)it.lost_to("a", holder_of("x", {"0"}, Phase::created));
  (void)it.seen(holder_of("x", {"0"}, Phase::running));
  EXPECT_EQ(it.pass(60), " | ");
  EXPECT_EQ(it.seen(holder_of("x", {"0"}, Phase::ended)), "start a | a starting");
}

TEST(Gpus, AnAttemptOfAnEarlierProcessKeepsItsGpus) {
  PlannerOptions options = with_gpus();
  options.restored.resize(2);
  options.restored[0].state = TrialState::running;
  options.restored[0].was_started = true;
  Planned it(wanting({1, 1}), std::move(options));
  EXPECT_EQ(it.begin(), " | ") << "nothing starts before it is known what runs";
  Observation runs = it.observation("a", Phase::running);
  runs.slots.gpus = {"0"};
  EXPECT_EQ(it.listed({runs}), "start b | b starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("0", "1"));
}

// Trials that need only CPUs keep starting while another trial waits for a GPU that is in use for long.
TEST(Gpus, ATrialThatWaitsForAGpuDelaysOnlyTrialsThatWouldUseIt) {
  Experiment experiment = wanting({3, 3});
  for (std::size_t i = 0; i < Planner::k_overtakes_max + 3; ++i) {
    Trial trial;
    trial.name = fmt::format("s{}", i);
    trial.slots.cpus = parse_cpus("8");
    experiment.trials.push_back(trial);
  }
  Planned it(experiment, with_gpus());
  EXPECT_EQ(it.begin(), "start a, start s0 | a starting, s0 starting");
  for (std::size_t i = 0; i + 1 < Planner::k_overtakes_max + 3; ++i)
    ASSERT_EQ(it.ended(fmt::format("s{}", i), 0),
              fmt::format("start s{1} | s{0} running, s{0} succeeded, s{1} starting", i, i + 1));
}

// The other trials get the GPU that the waiting trial needs only if no other GPU is free.
TEST(Gpus, ATrialThatWaitsForAGpuDoesNotDelayTrialsThatGetOtherGpus) {
  Experiment experiment = wanting({1, 1});
  experiment.trials[0].gpus = GpuRequest{.count = 1, .ids = {"2"}};
  experiment.trials[1].gpus = GpuRequest{.count = 1, .ids = {"2"}};
  for (std::size_t i = 0; i < 2 * Planner::k_overtakes_max; ++i) {
    Trial trial;
    trial.name = fmt::format("s{}", i);
    trial.gpus = GpuRequest{.count = 1};
    experiment.trials.push_back(trial);
  }
  Planned it(experiment, with_gpus());
  EXPECT_EQ(it.begin(), "start a, start s0, start s1 | a starting, s0 starting, s1 starting");
  for (std::size_t i = 0; i + 2 < 2 * Planner::k_overtakes_max; ++i)
    ASSERT_EQ(it.ended(fmt::format("s{}", i), 0),
              fmt::format("start s{1} | s{0} running, s{0} succeeded, s{1} starting", i, i + 2));
}

TEST(Gpus, AnAttemptRestartedByHandHoldsItsGpus) {
  Planned it(wanting({3}), with_gpus());
  (void)it.seen(holder_of("x", {"0"}, Phase::ended));
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_EQ(it.lost_to("a", holder_of("x", {"0"}, Phase::running)), " | a ready");
  EXPECT_EQ(it.pass(9), " | ");
}

TEST(Gpus, TheSmallestSufficientGpusAreChosen) {
  const std::vector<Gpu> gpus = three_gpus();
  const std::vector<std::string> all{"0", "1", "2"};
  using Ids = std::optional<std::vector<std::string>>;
  EXPECT_EQ(schedule::choose({.count = 1}, gpus, {"2", "1"}, {}), Ids({"1"}));
  EXPECT_EQ(schedule::choose({.count = 1, .memory = parse_bytes("20g")}, gpus, all, {}), Ids({"2"}));
  EXPECT_EQ(schedule::choose({.count = 1, .kind = "h100"}, gpus, all, {}), Ids({"2"}));
  EXPECT_EQ(schedule::choose({.count = 2, .kind = "h100"}, gpus, all, {}), std::nullopt);
  EXPECT_EQ(schedule::choose({.count = 1, .ids = {"GPU-b"}}, gpus, all, {}), Ids({"1"}));
  EXPECT_EQ(schedule::choose({.count = 1, .ids = {"GPU-b"}}, gpus, {"0", "2"}, {}), std::nullopt);
  EXPECT_EQ(schedule::choose({.all = true, .kind = "t4"}, gpus, all, {}), Ids({"0", "1"}));
  EXPECT_EQ(schedule::choose({.all = true}, gpus, {"0", "1"}, {}), std::nullopt) << "all, or none";
  EXPECT_EQ(schedule::choose({.all = true}, {}, {}, {}), std::nullopt);
}

TEST(Gpus, AllWishesAreMatchedTogether) {
  const std::vector<Gpu> gpus = three_gpus();
  const std::vector<std::string> all{"0", "1", "2"};
  const GpuRequest any{.count = 1};
  const GpuRequest two{.count = 2, .kind = "t4"};
  const GpuRequest first{.count = 1, .ids = {"0"}};
  const GpuRequest large{.count = 1, .memory = parse_bytes("20g")};
  EXPECT_TRUE(schedule::can_match({&any, &two}, gpus, all)) << "any takes the H100";
  EXPECT_TRUE(schedule::can_match({&any, &any, &first}, gpus, all));
  EXPECT_FALSE(schedule::can_match({&first, &two}, gpus, all));
  EXPECT_FALSE(schedule::can_match({&large, &any}, gpus, {"0", "1"}));
  EXPECT_FALSE(schedule::can_match({&any, &any, &any, &any}, gpus, all));
  EXPECT_TRUE(schedule::can_match({}, gpus, {}));
}

TEST(Gpus, WithoutACapacityNoGpuIsAssigned) {
  Planned it(wanting({1, 1}), {});
  EXPECT_EQ(it.begin(), "start a, start b | a starting, b starting");
  EXPECT_TRUE(it.held().gpus.empty());
}

TEST(Gpus, AnAttemptOfAnEarlierProcessHoldsItsCpusOnce) {
  PlannerOptions options = with_gpus();
  options.restored.resize(1);
  options.restored[0] = {.state = TrialState::running, .was_started = true};
  Experiment experiment = wanting({1});
  experiment.trials[0].slots.cpus = parse_cpus("3");
  Planned it(std::move(experiment), std::move(options));
  (void)it.begin();
  Observation runs = it.observation("a", Phase::running);
  runs.slots = {.cpus = parse_cpus("3"), .memory = {}, .gpus = {"0"}};
  (void)it.listed({runs});
  EXPECT_EQ(it.held(), runs.slots);
  (void)it.ended("a", 0);
  EXPECT_EQ(it.held(), Slots{});
}

TEST(Gpus, EachClaimExpiresAtItsOwnTime) {
  Planned it(wanting({2, 3}), with_gpus());
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_EQ(it.lost_to("a", holder_of("x", {"0"}, Phase::created)), "start a | a ready, a starting");
  (void)it.pass(5);
  EXPECT_EQ(it.lost_to("a", holder_of("y", {"1"}, Phase::created)), " | a ready");
  EXPECT_EQ(it.pass(5), "start a | a starting") << "x is forgotten";
  EXPECT_EQ(it.ended("a", 0), " | a running, a succeeded");
  EXPECT_EQ(it.pass(4), " | ");
  EXPECT_EQ(it.pass(1), "start b | b starting") << "y is forgotten";
}

TEST(Gpus, AClaimReleasedTwoListingsAgoCountsAgain) {
  Planned it(wanting({3}), with_gpus());
  (void)it.begin();
  (void)it.seen(holder_of("x", {"0"}, Phase::gone));
  (void)it.listed({});
  (void)it.listed({});
  EXPECT_EQ(it.lost_to("a", holder_of("x", {"0"}, Phase::created)), " | a ready");
  EXPECT_EQ(it.pass(9), " | ");
  EXPECT_EQ(it.pass(1), "start a | a starting");
}

TEST(Gpus, ChoicesAreTriedInOrder) {
  std::vector<Gpu> gpus = three_gpus();
  gpus.push_back({.id = "3", .uuid = {}, .kind = {}, .memory = parse_bytes("90g")});
  const std::vector<std::string> all{"0", "1", "2", "3"};
  std::vector<std::string> tried;
  const auto note = [&](const std::vector<std::string>& ids) {
    tried.push_back(ids[0] + ids[1]);
    return false;
  };
  EXPECT_EQ(schedule::choose({.count = 2}, gpus, all, {}, note), std::nullopt);
  EXPECT_THAT(tried, testing::ElementsAre("01", "02", "03", "12", "13", "23"));
}

TEST(Gpus, TheSmallestGpusComeFirstAndSparedGpusLast) {
  std::vector<Gpu> gpus = three_gpus();
  std::ranges::reverse(gpus);
  const std::vector<std::string> all{"2", "1", "0"};
  using Ids = std::optional<std::vector<std::string>>;
  EXPECT_EQ(schedule::choose({.count = 2}, gpus, all, {}), Ids({"1", "0"}));
  EXPECT_EQ(schedule::choose({.count = 2}, gpus, all, {.count = 1, .kind = "t4"}), Ids({"2", "1"}));
}

TEST(Gpus, TheTextOfGpusContainsTheKnownProperties) {
  EXPECT_EQ(schedule::gpus_text({}), "no GPU: the engine reports none, and combu's config.json lists none");
  const std::vector<Gpu> gpus{{.id = "0", .uuid = {}, .kind = {}, .memory = {}}};
  EXPECT_EQ(schedule::gpus_text(gpus), "1 GPU (0: of unknown kind, memory unknown)");
}

}  // namespace
}  // namespace combu::test
