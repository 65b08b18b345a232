// check_slots(): trials that can never start.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "schedule_planned.hpp"

namespace combu::test {
namespace {

// Returns the first message of check_slots(); empty if there is none.
std::string refusal(const Experiment& experiment, Slots capacity, const std::vector<Gpu>& gpus = {},
                    Until until = Until::ended) {
  for (const Gpu& gpu : gpus) capacity.gpus.push_back(gpu.id);
  const std::vector<Error> errors = check_slots(experiment, capacity, gpus, until);
  return errors.empty() ? "" : errors.front().what();
}

TEST(Gpus, ATrialThatDoesNotFitBesideItsServiceIsRefused) {
  Experiment experiment = wanting({2, 2, 1});
  experiment.trials[0].service = true;
  experiment.trials[1].depends.push_back({.trial = "a"});
  experiment.trials[2].depends.push_back({.trial = "a"});
  const PlannerOptions options = with_gpus();
  const auto errors = check_slots(experiment, *options.capacity, options.gpus);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_THAT(errors[0].what(),
              testing::StartsWith("b: needs 4 GPUs together with `a`, which runs at the same time, but"));
}

TEST(Gpus, MoreGpusThanTheEngineHasAreRefused) {
  Experiment experiment = wanting({1, 4, 1});
  experiment.trials[2].gpus = GpuRequest{.count = 1, .memory = parse_bytes("100g")};
  const PlannerOptions options = with_gpus();
  const auto errors = check_slots(experiment, *options.capacity, options.gpus);
  ASSERT_EQ(errors.size(), 2U);
  EXPECT_STREQ(errors[0].what(),
               "b: needs 4 GPUs, but the engine has 3 GPUs (0: NVIDIA T4, 16 GiB; 1: NVIDIA T4, 16 GiB; "
               "2: NVIDIA H100 80GB, 80 GiB)");
  EXPECT_THAT(errors[1].what(), testing::HasSubstr("c: needs 1 GPU with 100 GiB or more, but"));
}

TEST(Gpus, TheErrorSaysThatUuidsAreNotKnown) {
  std::vector<Gpu> gpus = three_gpus();
  for (Gpu& gpu : gpus) {
    gpu.id = "nvidia.com/gpu=" + gpu.id;
    gpu.uuid.clear();
  }
  Experiment experiment = wanting({1});
  experiment.trials[0].gpus = GpuRequest{.count = 1, .ids = {"nvidia.com/gpu=GPU-a"}};
  const Slots capacity{.cpus = {}, .memory = {}, .gpus = {gpus[0].id, gpus[1].id, gpus[2].id}};
  const auto errors = check_slots(experiment, capacity, gpus);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_THAT(errors[0].what(), testing::HasSubstr("80 GiB), whose UUIDs are not known"));
  gpus[0].uuid = "GPU-a";
  EXPECT_TRUE(check_slots(experiment, capacity, gpus).empty());
}

TEST(Slots, MoreCpusThanTheEngineHasAreRefused) {
  const auto errors = check_slots(test::experiment("a=3 b=4.5 c"), Planned::cpus("4"), {});
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_STREQ(errors[0].what(), "b: needs 4.5 CPUs, but the engine has 4 CPUs");
}

TEST(Slots, MemorySizesThatLookEqualAreShownInBytes) {
  Experiment experiment = test::experiment("a b");
  experiment.trials[0].slots.memory = parse_bytes("16.0001g");
  experiment.trials[1].slots.memory = parse_bytes("17g");
  const Slots capacity{.cpus = {}, .memory = parse_bytes("16g"), .gpus = {}};
  const auto errors = check_slots(experiment, capacity, {});
  ASSERT_EQ(errors.size(), 2U);
  EXPECT_STREQ(errors[0].what(),
               "a: needs 17179976558 B of memory, but the engine has 17179869184 B of memory");
  EXPECT_STREQ(errors[1].what(), "b: needs 17 GiB of memory, but the engine has 16 GiB of memory");
}

TEST(Slots, TheErrorNamesAMissingKindOfSlots) {
  const Slots capacity{.cpus = {}, .memory = parse_bytes("4g"), .gpus = {"0"}};
  const auto errors = check_slots(test::experiment("a=0.1"), capacity, {});
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_STREQ(errors[0].what(), "a: needs 0.1 CPUs, but the engine has no CPUs, 4 GiB of memory");
}

TEST(CheckSlots, AllServicesBesideATrialCount) {
  const auto refusal = [](const Experiment& experiment, std::vector<Gpu> gpus = {}) {
    Slots capacity = Planned::cpus("2");
    for (const Gpu& gpu : gpus) capacity.gpus.push_back(gpu.id);
    const std::vector<Error> errors = check_slots(experiment, capacity, gpus);
    return errors.empty() ? std::string() : std::string(errors.front().what());
  };
  EXPECT_THAT(refusal(with_cpus("!a !b<-a w<-b", {{"a", "1"}, {"b", "1"}, {"w", "1"}})),
              testing::HasSubstr("w: needs 3 CPUs together with `b`, `a`, which run at the same time"));
  EXPECT_THAT(refusal(with_cpus("!board w", {{"board", "2"}, {"w", "1"}})),
              testing::HasSubstr("w: needs 3 CPUs together with `board`, which runs at the same time"));
  EXPECT_EQ(refusal(with_cpus("!board w", {{"board", "1"}, {"w", "1"}})), "");
  Experiment experiment = test::experiment("!s w<-s");
  for (Trial& trial : experiment.trials) {
    trial.gpus = GpuRequest{.count = 1, .ids = {"0"}};
  }
  const Gpu zero{.id = "0", .uuid = {}, .kind = {}, .memory = {}};
  const Gpu one{.id = "1", .uuid = {}, .kind = {}, .memory = {}};
  EXPECT_THAT(refusal(experiment, {zero, one}), testing::HasSubstr("2 GPUs together with `s`"));
}

TEST(CheckSlots, AnExperimentThatFitsWithSomeChoiceOfGpusIsAccepted) {
  const PlannerOptions options = with_gpus();
  const Experiment experiment =
      with_wishes("!d s<-d", {{"d", {.count = 1}}, {"s", {.count = 2, .kind = "t4"}}});
  EXPECT_TRUE(check_slots(experiment, *options.capacity, options.gpus).empty());
}

TEST(CheckSlots, TheErrorSaysThatThereIsNoMemory) {
  Experiment experiment = test::experiment("a");
  experiment.trials[0].slots.memory = parse_bytes("1g");
  EXPECT_EQ(refusal(experiment, Planned::cpus("4")),
            "a: needs 1 GiB of memory, but the engine has 4 CPUs, no memory");
}

TEST(CheckSlots, TheErrorMentionsUuidsOnlyIfAnUnknownIdMayBeOne) {
  std::vector<Gpu> gpus = three_gpus();
  Experiment experiment = wanting({1});
  experiment.trials[0].gpus = GpuRequest{.count = 1, .ids = {"GPU-x"}};
  EXPECT_THAT(refusal(experiment, {}, gpus), testing::EndsWith("80 GiB)")) << "all are known";
  for (Gpu& gpu : gpus) gpu.uuid.clear();
  EXPECT_THAT(refusal(experiment, {}, gpus), testing::EndsWith("whose UUIDs are not known"));
  experiment.trials[0].gpus = GpuRequest{.count = 2, .ids = {"0"}};
  EXPECT_THAT(refusal(experiment, {}, gpus), testing::EndsWith("80 GiB)")) << "the id is no UUID";
}

TEST(CheckSlots, TheErrorNamesTheServicesBesideATrial) {
  const Slots two = Planned::cpus("2");
  EXPECT_EQ(refusal(test::experiment("!board=2 w=1"), two),
            "w: needs 3 CPUs together with `board`, which runs at the same time, but the engine has 2 CPUs");
  EXPECT_EQ(refusal(test::experiment("!a !b=1<-a w=2<-b"), two),
            "w: needs 3 CPUs together with `b`, which runs at the same time, but the engine has 2 CPUs");
  EXPECT_EQ(refusal(test::experiment("!a=1 !b<-a !c<-a p w=1<-b,c,p:succeeded"), two), "") << "a runs once";
  EXPECT_EQ(
      refusal(test::experiment("!a=0.5 !b=0.5 !c=0.5 !d=0.5 !e=0.5 w=2<-a,b,c,d,e"), Planned::cpus("4")),
      "w: needs 4.5 CPUs together with `a`, `b`, `c`, `d`, `e`, which run at the same time, but the engine "
      "has 4 "
      "CPUs");
  EXPECT_EQ(
      refusal(test::experiment("!a=1 !b=1 !c=1 !d=1 !e=1 !f=1 !g=1 w=1<-a,b,c,d,e,f,g"), Planned::cpus("7")),
      "w: needs 8 CPUs together with `a`, `b`, `c`, `d`, `e` and 2 more, which run at the same time, but the "
      "engine "
      "has 7 CPUs");
}

TEST(CheckSlots, TheErrorCountsTheGpusOfAllTrialsTogether) {
  const std::vector<Gpu> gpus{{.id = "0", .uuid = {}, .kind = {}, .memory = {}}};
  const GpuRequest one{.count = 1};
  const Experiment experiment = with_wishes("!s w<-s", {{"s", one}, {"w", one}});
  const std::string together =
      "w: needs 2 GPUs together with `s`, which runs at the same time, but the engine has 1 GPU (0: of "
      "unknown "
      "kind, memory "
      "unknown)";
  EXPECT_EQ(refusal(experiment, {}, gpus), together);
  const std::string no_stop = "; without `run --wait`, combu stops no service";
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
      "d1: needs 2 CPUs together with `d2`, which runs at the same time, but the engine has 1 CPU; without "
      "`run --wait`, combu stops no service");
}

}  // namespace
}  // namespace combu::test
