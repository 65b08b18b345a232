// The planner: CPUs, memory and GPUs of a run and of other runs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schedule/gpus.hpp"
#include "schedule_planned.hpp"

namespace combu::test {
namespace {

// Trials with CPUs: "a=2 b=1".
Experiment with_cpus(const std::string& text, const std::map<std::string, std::string>& cpus) {
  Experiment experiment = test::experiment(text);
  for (Trial& trial : experiment.trials)
    if (const auto wanted = cpus.find(trial.name); wanted != cpus.end())
      trial.slots.cpus = parse_cpus(wanted->second);
  return experiment;
}

PlannerOptions with_cpus(const char* cpus) {
  return {.starts_in_flight_max = 100, .capacity = Slots{.cpus = parse_cpus(cpus)}};
}

TEST(Slots, AreNeverGivenTwice) {
  Planned it("a=3 b=2 c=0.5 d", with_cpus("4"));
  EXPECT_EQ(it.begin(), "start a, start c, start d | a starting, c starting, d starting");
  EXPECT_EQ(it.held(), Planned::cpus("3.5"));
  EXPECT_EQ(it.ended("a", 0), "start b | a running, a succeeded, b starting");
  EXPECT_EQ(it.held(), Planned::cpus("2.5"));
}

TEST(Slots, AreNotTakenBeforeItIsKnownWhatOthersHold) {
  const Experiment experiment = test::experiment("a=1 b");
  const Plan plan = test::plan(experiment);
  Planner planner(RunId("run1"), experiment, plan, with_cpus("4"));
  const Step begun = planner.step(Begin{}, {});
  ASSERT_EQ(begun.commands.size(), 1U);
  EXPECT_EQ(std::get<StartCommand>(begun.commands[0]).trial, 1U);
  EXPECT_EQ(planner.step(Listed{}, {}).commands.size(), 1U);
}

TEST(Slots, OfAStartThatFailsAreFreeAgain) {
  Planned it("a=3 b=3", with_cpus("4"));
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_EQ(it.not_started("a"), "start b | a failed (could not be started: port is taken), b starting");
}

TEST(Slots, WithoutACapacityBoundNothing) {
  Planned it("a=300 b=2");
  EXPECT_EQ(it.begin(), "start a, start b | a starting, b starting");
}

TEST(Slots, OfOtherRunsCount) {
  Planned it("a=2 b=2 c=2", with_cpus("4"));
  EXPECT_EQ(it.other("x", Phase::running), " | ");
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_EQ(it.other("x", Phase::running), " | ") << "told twice, held once";
  EXPECT_EQ(it.other("x", Phase::ended), "start b | b starting");
  EXPECT_EQ(it.other("x", Phase::running), " | ") << "told late";
  EXPECT_EQ(it.ended("a", 0), "start c | a running, a succeeded, c starting");
}

TEST(Slots, AListingTellsWhatOthersHold) {
  Planned it("a=2 b=2", with_cpus("4"));
  EXPECT_EQ(it.other("x", Phase::running), " | ");
  EXPECT_EQ(it.other("y", Phase::created), " | ") << "has not started, and need not";
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_EQ(it.listed({}), "start b | b starting") << "x is not there any more";
}

TEST(Slots, ALargeTrialIsOvertakenOnlySoOften) {
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

TEST(Slots, WhatOthersHoldForEverHoldsUpOnlyWhoNeedsIt) {
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

TEST(Slots, WhatNoHostHasIsToldBefore) {
  const auto errors = check_slots(test::experiment("a=3 b=4.5 c"), Planned::cpus("4"), {});
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_STREQ(errors[0].what(), "b: wants 4.5 CPUs, but the engine has 4 CPUs to give");
}

TEST(Slots, MemoryThatReadsAlikeIsToldInBytes) {
  Experiment experiment = test::experiment("a b");
  experiment.trials[0].slots.memory = parse_bytes("16.0001g");
  experiment.trials[1].slots.memory = parse_bytes("17g");
  const Slots capacity{.cpus = {}, .memory = parse_bytes("16g"), .gpus = {}};
  const auto errors = check_slots(experiment, capacity, {});
  ASSERT_EQ(errors.size(), 2U);
  EXPECT_STREQ(errors[0].what(),
               "a: wants 17179976558 B of memory, but the engine has 17179869184 B of memory to give");
  EXPECT_STREQ(errors[1].what(), "b: wants 17 GiB of memory, but the engine has 16 GiB of memory to give");
}

TEST(Slots, ThatNothingIsLeftIsToldByKind) {
  const Slots capacity{.cpus = {}, .memory = parse_bytes("4g"), .gpus = {"0"}};
  const auto errors = check_slots(test::experiment("a=0.1"), capacity, {});
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_STREQ(errors[0].what(), "a: wants 0.1 CPUs, but the engine has no CPUs, 4 GiB of memory to give");
}

TEST(Slots, WhatIsKeptUpByOneThatMayStayForEverKeepsNobodyBack) {
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

TEST(Slots, EachThatWaitsIsOvertakenOnlySoOften) {
  std::string text = "gpu0 gpu1 large";
  std::map<std::string, std::string> cpus{{"large", "2"}};
  for (int i = 0; i < 90; ++i) {
    text += " s" + std::to_string(i);
    cpus["s" + std::to_string(i)] = "1";
  }
  Experiment experiment = with_cpus(text, cpus);
  experiment.trials[0].gpus = GpuWish{.count = 1};
  experiment.trials[1].gpus = GpuWish{.count = 1};
  PlannerOptions options{.until = Until::ended, .capacity = Planned::cpus("2")};
  options.gpus = {{.id = "0", .uuid = {}, .kind = {}, .memory = {}}};
  options.capacity->gpus = {"0"};
  Planned it(std::move(experiment), options);
  // `gpu1` heads the line all the time, and waits for something else.
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

TEST(Slots, WhoLosesThemToOneThatIsKnownWaitsForAMoment) {
  Planned it(with_cpus("a", {{"a", "1"}}), {.capacity = Planned::cpus("2")});
  (void)it.begin();
  Sighting rival{.key = {.run = RunId("other"), .trial = "r"},
                 .experiment = "other",
                 .id = "r1",
                 .phase = Phase::created,
                 .slots = Planned::cpus("1")};
  EXPECT_EQ(it.lost_to("a", rival), "start a | a ready, a starting") << "one of two CPUs is free";
  EXPECT_EQ(it.lost_to("a", rival), " | a ready") << "nothing has been learnt";
  EXPECT_EQ(it.pass(1.1), "start a | a starting");
}

TEST(Slots, ServicesLeaveRoomForThoseThatTheyServe) {
  Planned it(with_cpus("!d1 !d2 s1<-d1 s2<-d2", {{"d1", "1"}, {"d2", "1"}, {"s1", "1"}, {"s2", "1"}}),
             {.until = Until::ended, .capacity = Planned::cpus("2")});
  EXPECT_EQ(it.begin(), "start d1 | d1 starting");
  EXPECT_EQ(it.started("d1"), "start s1 | d1 running, s1 starting");
  EXPECT_EQ(it.started("s1"), " | s1 running");
  EXPECT_EQ(it.ended("s1", 0), "stop d1 | s1 succeeded");
  EXPECT_EQ(it.ended("d1", 143), "start d2 | d1 stopped, d2 starting");
  EXPECT_EQ(it.started("d2"), "start s2 | d2 running, s2 starting");
}

TEST(Slots, ServicesThatStandInAChainStart) {
  Planned it(with_cpus("!a !b<-a w<-b", {{"a", "1"}, {"b", "1"}, {"w", "1"}}),
             {.until = Until::ended, .capacity = Planned::cpus("3")});
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_EQ(it.started("a"), "start b | a running, b starting");
  EXPECT_EQ(it.started("b"), "start w | b running, w starting");
}

// Each wants so many.
Experiment wanting(const std::vector<std::size_t>& counts) {
  Experiment experiment;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    Trial trial;
    trial.name = std::string(1, static_cast<char>('a' + i));
    trial.gpus = GpuWish{.count = counts[i]};
    experiment.trials.push_back(std::move(trial));
  }
  return experiment;
}

TEST(Gpus, AreGivenByNameAndToOneAtATime) {
  Planned it(wanting({1, 1, 2, 1}), with_gpus());
  EXPECT_EQ(it.begin(), "start a, start b, start d | a starting, b starting, d starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("0", "1", "2"));
  EXPECT_EQ(it.ended("b", 0), " | b running, b succeeded");
  EXPECT_EQ(it.ended("a", 0), "start c | a running, a succeeded, c starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("2", "0", "1"));
}

Sighting holder_of(const std::string& id, std::vector<std::string> gpus, Phase phase) {
  return {.key = {.run = RunId("run2"), .trial = "x"},
          .experiment = "other",
          .id = id,
          .phase = phase,
          .slots = {.cpus = {}, .memory = {}, .gpus = std::move(gpus)}};
}

TEST(Gpus, ThatOthersHoldAreNotGiven) {
  Planned it(wanting({1, 1}), with_gpus());
  (void)it.seen(holder_of("x", {"0", "2"}, Phase::running));
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("1"));
  EXPECT_EQ(it.seen(holder_of("x", {"0", "2"}, Phase::ended)), "start b | b starting");
}

TEST(Gpus, OneThatSomebodyWasFasterToTakeIsLeftToThem) {
  Planned it(wanting({1}), with_gpus());
  (void)it.begin();
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("0"));
  EXPECT_EQ(it.lost_to("a", holder_of("x", {"0"}, Phase::created)), "start a | a ready, a starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("1"));
}

TEST(Gpus, AClaimThatComesToNothingIsForgotten) {
  Planned it(wanting({3}), with_gpus());
  (void)it.begin();
  EXPECT_EQ(it.lost_to("a", holder_of("x", {"0"}, Phase::created)), " | a ready");
  EXPECT_EQ(it.pass(9), " | ");
  EXPECT_EQ(it.pass(1), "start a | a starting");
}

TEST(Gpus, AClaimThatIsLetGoIsFreeAtOnce) {
  Planned it(wanting({3}), with_gpus());
  (void)it.begin();
  (void)it.lost_to("a", holder_of("x", {"0"}, Phase::created));
  EXPECT_EQ(it.seen(holder_of("x", {"0"}, Phase::gone)), "start a | a starting");
}

TEST(Gpus, AClaimThatWasLetGoBeforeAListingHoldsNothing) {
  Planned it(wanting({2}), with_gpus());
  (void)it.begin();
  (void)it.seen(holder_of("x1", {"0", "1"}, Phase::gone));
  (void)it.listed({});
  EXPECT_EQ(it.lost_to("a", holder_of("x1", {"0", "1"}, Phase::created)), " | a ready");
  EXPECT_EQ(it.pass(1), "start a | a starting");
}

TEST(Gpus, AClaimThatRunsIsNotForgotten) {
  Planned it(wanting({3}), with_gpus());
  (void)it.begin();
  (void)it.lost_to("a", holder_of("x", {"0"}, Phase::created));
  (void)it.seen(holder_of("x", {"0"}, Phase::running));
  EXPECT_EQ(it.pass(60), " | ");
  EXPECT_EQ(it.seen(holder_of("x", {"0"}, Phase::ended)), "start a | a starting");
}

TEST(Gpus, WhatAnEarlierProcessHasStartedKeepsItsOwn) {
  PlannerOptions options = with_gpus();
  options.past.resize(2);
  options.past[0].state = TrialState::running;
  options.past[0].was_started = true;
  Planned it(wanting({1, 1}), std::move(options));
  EXPECT_EQ(it.begin(), " | ") << "nothing starts before it is known what runs";
  Sighting runs = it.sighting("a", Phase::running);
  runs.slots.gpus = {"0"};
  EXPECT_EQ(it.listed({runs}), "start b | b starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("0", "1"));
}

// A line of trials that want processors goes on while one waits for a GPU that is long in use.
TEST(Gpus, WhoWaitsForOneHoldsUpOnlyWhoWouldTakeIt) {
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

// Others get what the one that waits could do with only where there is nothing else.
TEST(Gpus, WhoWaitsForOneDeviceDoesNotHoldUpThoseThatTakeOthers) {
  Experiment experiment = wanting({1, 1});
  experiment.trials[0].gpus = GpuWish{.count = 1, .ids = {"2"}};
  experiment.trials[1].gpus = GpuWish{.count = 1, .ids = {"2"}};
  for (std::size_t i = 0; i < 2 * Planner::k_overtakes_max; ++i) {
    Trial trial;
    trial.name = fmt::format("s{}", i);
    trial.gpus = GpuWish{.count = 1};
    experiment.trials.push_back(trial);
  }
  Planned it(experiment, with_gpus());
  EXPECT_EQ(it.begin(), "start a, start s0, start s1 | a starting, s0 starting, s1 starting");
  for (std::size_t i = 0; i + 2 < 2 * Planner::k_overtakes_max; ++i)
    ASSERT_EQ(it.ended(fmt::format("s{}", i), 0),
              fmt::format("start s{1} | s{0} running, s{0} succeeded, s{1} starting", i, i + 2));
}

TEST(Gpus, WhatHasBeenStartedAgainByHandHoldsItsOwn) {
  Planned it(wanting({3}), with_gpus());
  (void)it.seen(holder_of("x", {"0"}, Phase::ended));
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_EQ(it.lost_to("a", holder_of("x", {"0"}, Phase::running)), " | a ready");
  EXPECT_EQ(it.pass(9), " | ");
}

TEST(Gpus, WhatCannotRunBesideItsServiceIsToldBefore) {
  Experiment experiment = wanting({2, 2, 1});
  experiment.trials[0].service = true;
  experiment.trials[1].depends.push_back({.trial = "a"});
  experiment.trials[2].depends.push_back({.trial = "a"});
  const PlannerOptions options = with_gpus();
  const auto errors = check_slots(experiment, *options.capacity, options.gpus);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_THAT(errors[0].what(),
              testing::StartsWith("b: wants 4 GPUs together with `a`, which runs beside it, but"));
}

TEST(Gpus, TheLeastThatWillDoIsChosen) {
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

TEST(Gpus, WhatNoHostHasIsToldBefore) {
  Experiment experiment = wanting({1, 4, 1});
  experiment.trials[2].gpus = GpuWish{.count = 1, .memory = parse_bytes("100g")};
  const PlannerOptions options = with_gpus();
  const auto errors = check_slots(experiment, *options.capacity, options.gpus);
  ASSERT_EQ(errors.size(), 2U);
  EXPECT_STREQ(errors[0].what(),
               "b: wants 4 GPUs, but the engine has 3 GPUs (0: NVIDIA T4, 16 GiB; 1: NVIDIA T4, 16 GiB; "
               "2: NVIDIA H100 80GB, 80 GiB) to give");
  EXPECT_THAT(errors[1].what(), testing::HasSubstr("c: wants 1 GPU with 100 GiB or more, but"));
}

TEST(Gpus, OfWhichTheUuidsAreNotKnownThatIsTold) {
  std::vector<Gpu> gpus = three_gpus();
  for (Gpu& gpu : gpus) {
    gpu.id = "nvidia.com/gpu=" + gpu.id;
    gpu.uuid.clear();
  }
  Experiment experiment = wanting({1});
  experiment.trials[0].gpus = GpuWish{.count = 1, .ids = {"nvidia.com/gpu=GPU-a"}};
  const Slots capacity{.cpus = {}, .memory = {}, .gpus = {gpus[0].id, gpus[1].id, gpus[2].id}};
  const auto errors = check_slots(experiment, capacity, gpus);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_THAT(errors[0].what(), testing::HasSubstr("80 GiB), whose UUIDs are not known, to give"));
  gpus[0].uuid = "GPU-a";
  EXPECT_TRUE(check_slots(experiment, capacity, gpus).empty());
}

TEST(Gpus, WishesAreMatched) {
  const std::vector<Gpu> gpus = three_gpus();
  const std::vector<std::string> all{"0", "1", "2"};
  const GpuWish any{.count = 1};
  const GpuWish two{.count = 2, .kind = "t4"};
  const GpuWish first{.count = 1, .ids = {"0"}};
  const GpuWish large{.count = 1, .memory = parse_bytes("20g")};
  EXPECT_TRUE(schedule::can_match({&any, &two}, gpus, all)) << "any takes the H100";
  EXPECT_TRUE(schedule::can_match({&any, &any, &first}, gpus, all));
  EXPECT_FALSE(schedule::can_match({&first, &two}, gpus, all));
  EXPECT_FALSE(schedule::can_match({&large, &any}, gpus, {"0", "1"}));
  EXPECT_FALSE(schedule::can_match({&any, &any, &any, &any}, gpus, all));
  EXPECT_TRUE(schedule::can_match({}, gpus, {}));
}

TEST(CheckSlots, CountsAllThatRunsBesideATrial) {
  const auto refusal = [](const Experiment& experiment, std::vector<Gpu> gpus = {}) {
    Slots capacity = Planned::cpus("2");
    for (const Gpu& gpu : gpus) capacity.gpus.push_back(gpu.id);
    const std::vector<Error> errors = check_slots(experiment, capacity, gpus);
    return errors.empty() ? std::string() : std::string(errors.front().what());
  };
  EXPECT_THAT(refusal(with_cpus("!a !b<-a w<-b", {{"a", "1"}, {"b", "1"}, {"w", "1"}})),
              testing::HasSubstr("w: wants 3 CPUs together with `b`, `a`, which run beside it"));
  EXPECT_THAT(refusal(with_cpus("!board w", {{"board", "2"}, {"w", "1"}})),
              testing::HasSubstr("w: wants 3 CPUs together with `board`, which runs beside it"));
  EXPECT_EQ(refusal(with_cpus("!board w", {{"board", "1"}, {"w", "1"}})), "");
  Experiment experiment = test::experiment("!s w<-s");
  for (Trial& trial : experiment.trials) {
    trial.gpus = GpuWish{.count = 1, .ids = {"0"}};
  }
  const Gpu zero{.id = "0", .uuid = {}, .kind = {}, .memory = {}};
  const Gpu one{.id = "1", .uuid = {}, .kind = {}, .memory = {}};
  EXPECT_THAT(refusal(experiment, {zero, one}), testing::HasSubstr("2 GPUs together with `s`"));
}

TEST(CheckSlots, WhatFitsInSomeOrderOfGpusIsNotRefused) {
  const PlannerOptions options = with_gpus();
  const Experiment experiment =
      with_wishes("!d s<-d", {{"d", {.count = 1}}, {"s", {.count = 2, .kind = "t4"}}});
  EXPECT_TRUE(check_slots(experiment, *options.capacity, options.gpus).empty());
}

Sighting rival(const std::string& run, const std::string& trial) {
  return {.key = {.run = RunId(run), .trial = trial},
          .experiment = "other",
          .id = "r1",
          .phase = Phase::created,
          .slots = Planned::cpus("1")};
}

TEST(Slots, AreLeftToWhoeverHasThem) {
  for (const auto& [run, trial] : {std::pair("run2", "x"), std::pair("run2", "a"), std::pair("run1", "b")}) {
    Planned it("a=1 b=1", {.starts_in_flight_max = 1, .capacity = Planned::cpus("1")});
    EXPECT_EQ(it.begin(), "start a | a starting");
    EXPECT_EQ(it.lost_to("a", rival(run, trial)), " | a ready") << run << " " << trial;
  }
}

TEST(Slots, OfOtherRunsCountAtEachListing) {
  Planned it("a=3", with_cpus("4"));
  Sighting other = holder_of("x", {}, Phase::running);
  other.slots = Planned::cpus("2");
  (void)it.seen(other);
  EXPECT_EQ(it.begin(), " | ");
  EXPECT_EQ(it.listed({other}), " | ");
  EXPECT_EQ(it.listed({other}), " | ");
  EXPECT_EQ(it.listed({}), "start a | a starting");
}

TEST(Slots, WhatHasBeenStartedAgainByHandHoldsItsOwn) {
  Planned it("a=3", with_cpus("4"));
  EXPECT_EQ(it.other("x", Phase::running), " | ");
  EXPECT_EQ(it.other("x", Phase::ended), " | ");
  Sighting other = holder_of("x", {}, Phase::running);
  other.slots = Planned::cpus("2");
  EXPECT_EQ(it.listed({other}), " | ");
  EXPECT_EQ(it.begin(), " | ");
  other.phase = Phase::ended;
  EXPECT_EQ(it.listed({other}), "start a | a starting");
}

TEST(Slots, WhatHasOnlyBeenMadeHoldsThemWhenItRuns) {
  Planned it("a=3", with_cpus("4"));
  EXPECT_EQ(it.other("x", Phase::created), " | ");
  EXPECT_EQ(it.other("x", Phase::running), " | ");
  EXPECT_EQ(it.begin(), " | ");
}

// First `holder` starts, and then one of many small ones after the other, which overtake `first`.
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

TEST(Slots, OneThatWaitsIsOvertakenForEverByThoseThatLeaveItEnough) {
  const auto wants = [](const char* cpus, std::int64_t memory, GpuWish gpus = {}) {
    Trial trial{.image = "image"};
    trial.slots = {.cpus = parse_cpus(cpus), .memory = Bytes{memory}, .gpus = {}};
    trial.gpus = std::move(gpus);
    return trial;
  };
  const GpuWish any{.count = 1};
  const GpuWish large{.count = 1, .kind = "h100"};
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

TEST(Slots, HowOftenOneIsOvertakenIsCountedForEach) {
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

// A look at those that are ready must not take long while there will be another one.
TEST(Slots, WhatWaitsBehindManyOthersIsLookedAtWhenNothingWillEnd) {
  Experiment experiment = test::experiment("busy=1 s=1");
  for (std::int64_t i = 0; i < 1500; ++i) {
    Trial large{.name = fmt::format("l{}", i), .image = "image", .priority = 1};
    large.slots = {.cpus = parse_cpus("4"), .memory = Bytes{i + 1}, .gpus = {}};
    experiment.trials.push_back(std::move(large));
  }
  PlannerOptions options = with_cpus("3");
  options.capacity->memory = Bytes{10000};
  options.past.resize(experiment.trials.size());
  options.past[0] = {.state = TrialState::running, .was_started = true};
  Planned it(std::move(experiment), options);
  (void)it.begin();
  EXPECT_EQ(it.listed({it.sighting("busy", Phase::running)}), " | ");
  EXPECT_EQ(it.ended("busy", 0), "start s | busy succeeded, s starting");
}

TEST(Gpus, WithoutACapacityNoneIsGiven) {
  Planned it(wanting({1, 1}), {});
  EXPECT_EQ(it.begin(), "start a, start b | a starting, b starting");
  EXPECT_TRUE(it.held().gpus.empty());
}

TEST(Gpus, WhatAnEarlierProcessHasStartedHoldsItsCpusOnce) {
  PlannerOptions options = with_gpus();
  options.past.resize(1);
  options.past[0] = {.state = TrialState::running, .was_started = true};
  Experiment experiment = wanting({1});
  experiment.trials[0].slots.cpus = parse_cpus("3");
  Planned it(std::move(experiment), std::move(options));
  (void)it.begin();
  Sighting runs = it.sighting("a", Phase::running);
  runs.slots = {.cpus = parse_cpus("3"), .memory = {}, .gpus = {"0"}};
  (void)it.listed({runs});
  EXPECT_EQ(it.held(), runs.slots);
  (void)it.ended("a", 0);
  EXPECT_EQ(it.held(), Slots{});
}

TEST(Gpus, EachClaimIsForgottenInItsTime) {
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

TEST(Gpus, AClaimThatWasLetGoTwoListingsAgoIsAClaimAgain) {
  Planned it(wanting({3}), with_gpus());
  (void)it.begin();
  (void)it.seen(holder_of("x", {"0"}, Phase::gone));
  (void)it.listed({});
  (void)it.listed({});
  EXPECT_EQ(it.lost_to("a", holder_of("x", {"0"}, Phase::created)), " | a ready");
  EXPECT_EQ(it.pass(9), " | ");
  EXPECT_EQ(it.pass(1), "start a | a starting");
}

TEST(Gpus, TheFirstChoiceThatSuitsIsMade) {
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

TEST(Gpus, TheSmallestIsChosenAndTheOneThatIsSparedLast) {
  std::vector<Gpu> gpus = three_gpus();
  std::ranges::reverse(gpus);
  const std::vector<std::string> all{"2", "1", "0"};
  using Ids = std::optional<std::vector<std::string>>;
  EXPECT_EQ(schedule::choose({.count = 2}, gpus, all, {}), Ids({"1", "0"}));
  EXPECT_EQ(schedule::choose({.count = 2}, gpus, all, {.count = 1, .kind = "t4"}), Ids({"2", "1"}));
}

TEST(Gpus, AreDescribedAsFarAsTheyAreKnown) {
  EXPECT_EQ(schedule::gpus_text({}), "no GPU that it or combu's config.json knows of");
  const std::vector<Gpu> gpus{{.id = "0", .uuid = {}, .kind = {}, .memory = {}}};
  EXPECT_EQ(schedule::gpus_text(gpus), "1 GPU (0: of unknown kind, memory unknown)");
}

// The first message of check_slots(); empty if there is none.
std::string refusal(const Experiment& experiment, Slots capacity, const std::vector<Gpu>& gpus = {},
                    Until until = Until::ended) {
  for (const Gpu& gpu : gpus) capacity.gpus.push_back(gpu.id);
  const std::vector<Error> errors = check_slots(experiment, capacity, gpus, until);
  return errors.empty() ? "" : errors.front().what();
}

TEST(CheckSlots, TellsThatThereIsNoMemory) {
  Experiment experiment = test::experiment("a");
  experiment.trials[0].slots.memory = parse_bytes("1g");
  EXPECT_EQ(refusal(experiment, Planned::cpus("4")),
            "a: wants 1 GiB of memory, but the engine has 4 CPUs, no memory to give");
}

TEST(CheckSlots, SpeaksOfUuidsOnlyWhereTheyAreInQuestion) {
  std::vector<Gpu> gpus = three_gpus();
  Experiment experiment = wanting({1});
  experiment.trials[0].gpus = GpuWish{.count = 1, .ids = {"GPU-x"}};
  EXPECT_THAT(refusal(experiment, {}, gpus), testing::EndsWith("80 GiB) to give")) << "all are known";
  for (Gpu& gpu : gpus) gpu.uuid.clear();
  EXPECT_THAT(refusal(experiment, {}, gpus), testing::EndsWith("whose UUIDs are not known, to give"));
  experiment.trials[0].gpus = GpuWish{.count = 2, .ids = {"0"}};
  EXPECT_THAT(refusal(experiment, {}, gpus), testing::EndsWith("80 GiB) to give")) << "the id is no UUID";
}

TEST(CheckSlots, NamesWhatRunsBesideATrial) {
  const Slots two = Planned::cpus("2");
  EXPECT_EQ(refusal(test::experiment("!board=2 w=1"), two),
            "w: wants 3 CPUs together with `board`, which runs beside it, but the engine has 2 CPUs to give");
  EXPECT_EQ(refusal(test::experiment("!a !b=1<-a w=2<-b"), two),
            "w: wants 3 CPUs together with `b`, which runs beside it, but the engine has 2 CPUs to give");
  EXPECT_EQ(refusal(test::experiment("!a=1 !b<-a !c<-a p w=1<-b,c,p:succeeded"), two), "") << "a runs once";
  EXPECT_EQ(
      refusal(test::experiment("!a=0.5 !b=0.5 !c=0.5 !d=0.5 !e=0.5 w=2<-a,b,c,d,e"), Planned::cpus("4")),
      "w: wants 4.5 CPUs together with `a`, `b`, `c`, `d`, `e`, which run beside it, but the engine has 4 "
      "CPUs "
      "to give");
  EXPECT_EQ(
      refusal(test::experiment("!a=1 !b=1 !c=1 !d=1 !e=1 !f=1 !g=1 w=1<-a,b,c,d,e,f,g"), Planned::cpus("7")),
      "w: wants 8 CPUs together with `a`, `b`, `c`, `d`, `e` and 2 more, which run beside it, but the engine "
      "has 7 CPUs to give");
}

TEST(CheckSlots, NamesTheGpusThatAreWantedTogether) {
  const std::vector<Gpu> gpus{{.id = "0", .uuid = {}, .kind = {}, .memory = {}}};
  const GpuWish one{.count = 1};
  const Experiment experiment = with_wishes("!s w<-s", {{"s", one}, {"w", one}});
  const std::string together =
      "w: wants 2 GPUs together with `s`, which runs beside it, but the engine has 1 GPU (0: of unknown "
      "kind, memory "
      "unknown) to give";
  EXPECT_EQ(refusal(experiment, {}, gpus), together);
  const std::string no_stop = ": without `run --wait` no service is stopped when its work is done";
  EXPECT_EQ(refusal(with_wishes("!s v<-s w", {{"s", one}, {"w", one}}), {}, gpus, Until::ended), "");
  EXPECT_EQ(refusal(with_wishes("!s v<-s w", {{"s", one}, {"w", one}}), {}, gpus, Until::started),
            together + no_stop);
}

TEST(CheckSlots, AServiceRunsBesideTheOtherServices) {
  const auto errors =
      check_slots(test::experiment("!d1=1 !d2=1 s1<-d1 s2<-d2"), Planned::cpus("1"), {}, Until::started);
  ASSERT_FALSE(errors.empty());
  EXPECT_STREQ(
      errors[0].what(),
      "d1: wants 2 CPUs together with `d2`, which runs beside it, but the engine has 1 CPU to give: without "
      "`run --wait` no service is stopped when its work is done");
}

TEST(Slots, OneThatComesBeforeTheOthersOfItsLineIsOvertakenAsOften) {
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
