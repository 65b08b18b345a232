// Tests of the planner's parts that order starts and count slots, each alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments.hpp"
#include "schedule/canaries.hpp"
#include "schedule/holdings.hpp"
#include "schedule/ready.hpp"
#include "schedule/service_room.hpp"
#include "schedule/timers.hpp"

namespace combu::schedule {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Slots cpus(const char* text) {
  return {.cpus = parse_cpus(text), .memory = {}, .gpus = {}};
}

// ---- Timers

TEST(Timers, TimersAreTakenInTheOrderOfTheirTimes) {
  constexpr Instant k_now{std::chrono::seconds(1'800'000'000)};
  Timers timers;
  EXPECT_EQ(timers.next(), std::nullopt);
  timers.set({.at = k_now + std::chrono::seconds(2), .kind = Timer::Kind::retry, .trial = 1, .attempt = 3});
  timers.set({.at = k_now + std::chrono::seconds(1), .kind = Timer::Kind::timeout, .trial = 2});
  EXPECT_EQ(timers.next(), k_now + std::chrono::seconds(1));
  EXPECT_FALSE(timers.take(k_now));
  EXPECT_EQ(timers.take(k_now + std::chrono::seconds(1)).value().trial, 2U);
  EXPECT_FALSE(timers.take(k_now + std::chrono::seconds(1)));
  const std::optional<Timer> last = timers.take(k_now + std::chrono::seconds(9));
  ASSERT_TRUE(last);
  EXPECT_EQ(last->kind, Timer::Kind::retry);
  EXPECT_EQ(last->attempt, 3);
  EXPECT_EQ(timers.next(), std::nullopt);
}

// ---- Canaries

class CanariesTest : public testing::Test {
 protected:
  CanariesTest() {
    experiment.canary = true;
    experiment.trials[3].image = "another";
  }
  Experiment experiment = test::experiment("a b c x");
  [[nodiscard]] Canaries make() const {
    return {experiment, [](TrialIndex) { return true; }};
  }
};

TEST_F(CanariesTest, TheFirstStartedTrialOfAShapeStartsAlone) {
  Canaries canaries = make();
  EXPECT_TRUE(canaries.admit(0));
  EXPECT_TRUE(canaries.admit(1));
  EXPECT_THAT(canaries.started(1), ElementsAre(0, 1));
  EXPECT_FALSE(canaries.admit(2));
  EXPECT_TRUE(canaries.admit(1)) << "it is the canary";
  EXPECT_EQ(canaries.awaited_by(0), 1U);
  EXPECT_EQ(canaries.awaited_by(1), std::nullopt);
  EXPECT_TRUE(canaries.admit(3)) << "another shape";
  EXPECT_THAT(canaries.passed(0), IsEmpty()) << "not the canary";
  EXPECT_THAT(canaries.passed(1), ElementsAre(0, 1, 2));
  EXPECT_TRUE(canaries.admit(2));
}

TEST_F(CanariesTest, AFailedCanaryIsFinalForItsShape) {
  Canaries canaries = make();
  (void)canaries.admit(0);
  (void)canaries.started(0);
  (void)canaries.admit(1);
  EXPECT_THAT(canaries.failed(0), ElementsAre(0, 1));
  EXPECT_EQ(canaries.failed_of(2), 0U);
  EXPECT_EQ(canaries.failed_of(3), std::nullopt);
  EXPECT_FALSE(canaries.admit(2));
  EXPECT_THAT(canaries.pass(1), IsEmpty()) << "the shape has failed for good";
}

TEST_F(CanariesTest, AWithdrawnCanaryIsReplaced) {
  Canaries canaries = make();
  (void)canaries.admit(0);
  (void)canaries.started(0);
  (void)canaries.admit(1);
  EXPECT_THAT(canaries.withdrawn(0), ElementsAre(0, 1));
  EXPECT_TRUE(canaries.admit(1));
  EXPECT_THAT(canaries.started(1), ElementsAre(1));
  EXPECT_EQ(canaries.awaited_by(0), 1U);
}

TEST_F(CanariesTest, AnEarlierSuccessMakesTheCanaryUnnecessary) {
  Canaries canaries = make();
  (void)canaries.admit(0);
  EXPECT_THAT(canaries.pass(2), ElementsAre(0));
  EXPECT_TRUE(canaries.admit(1));
  EXPECT_THAT(canaries.started(1), IsEmpty());
}

TEST_F(CanariesTest, WithoutCanariesEveryTrialMayStart) {
  experiment.canary = false;
  Canaries canaries = make();
  EXPECT_TRUE(canaries.admit(0));
  EXPECT_THAT(canaries.started(0), IsEmpty());
  EXPECT_TRUE(canaries.admit(1));
  EXPECT_EQ(canaries.awaited_by(1), std::nullopt);
  EXPECT_EQ(canaries.failed_of(1), std::nullopt);
}

// ---- ReadyLines

std::vector<std::string> order_of(const Experiment& experiment) {
  ReadyLines lines(experiment);
  for (TrialIndex trial = 0; trial < experiment.trials.size(); ++trial)
    lines.push(trial, experiment.trials[trial].slots, 0);
  std::vector<std::string> names;
  while (lines.begin() != lines.end())
    names.push_back(experiment.trials[lines.pop(lines.at(lines.begin()))].name);
  return names;
}

TEST(ReadyLines, TrialsAreOrderedByPriorityAndThenByTheFile) {
  EXPECT_THAT(order_of(test::experiment("a b=2^1 c=1 d=2 e^1")), ElementsAre("b", "e", "a", "c", "d"));
}

TEST(ReadyLines, ARandomOrderFollowsTheSeed) {
  Experiment experiment = test::experiment("a b c d e");
  experiment.order = Order::random;
  experiment.seed = 7;
  const std::vector<std::string> order = order_of(experiment);
  EXPECT_EQ(order_of(experiment), order);
  EXPECT_THAT(order, testing::UnorderedElementsAre("a", "b", "c", "d", "e"));
  EXPECT_THAT(order, testing::Not(ElementsAre("a", "b", "c", "d", "e")));
}

TEST(ReadyLines, TrialsThatWantTheSameSlotsShareALine) {
  const Experiment experiment = test::experiment("a=1 b=2 c=1");
  ReadyLines lines(experiment);
  for (const TrialIndex trial : {2U, 1U, 0U}) lines.push(trial, experiment.trials[trial].slots, 0);
  const ReadyLines::Line& first = lines.at(lines.begin());
  EXPECT_EQ(first.positions.size(), 2U);
  EXPECT_EQ(first.positions.top().trial, 0U);
  const auto next = lines.drop_head(lines.begin());
  EXPECT_EQ(lines.at(next).positions.top().trial, 1U) << "the head of the other line is before `c`";
}

// ---- Holdings

TEST(Holdings, SlotsOfThisRunAndOfOtherRunsAreCounted) {
  Holdings holdings(cpus("4"), {});
  const ReadyLines::Line line{.slots = cpus("2"), .gpus = {}, .positions = {}};
  EXPECT_FALSE(holdings.is_free(line)) << "the engine has not listed other runs yet";
  holdings.begin_listing();
  EXPECT_TRUE(holdings.is_free(line));
  holdings.take(0, cpus("1"), false);
  holdings.take(1, cpus("1"), true);
  EXPECT_EQ(holdings.held(), cpus("2"));
  EXPECT_TRUE(holdings.is_free(line));
  Observation other{.key = {.run = RunId("r2"), .trial = "x"}, .id = "x", .phase = Phase::running};
  other.slots = cpus("1");
  holdings.see_other(other);
  EXPECT_EQ(holdings.held_by_others(), cpus("1"));
  EXPECT_FALSE(holdings.is_free(line));
  EXPECT_TRUE(holdings.is_free_in_time(line)) << "trial 0 ends with the run's work";
  EXPECT_EQ(holdings.left_in_time(), cpus("2"));
  holdings.give_back(0);
  EXPECT_TRUE(holdings.is_free(line));
  EXPECT_EQ(holdings.held_by(1), cpus("1"));
  EXPECT_TRUE(holdings.held_by(0).empty());
}

TEST(Holdings, AnEndedAttemptOfAnotherRunHoldsNothing) {
  Holdings holdings(cpus("1"), {});
  holdings.begin_listing();
  Observation other{.key = {.run = RunId("r2"), .trial = "x"}, .id = "x", .phase = Phase::running};
  other.slots = cpus("1");
  holdings.see_other(other);
  other.phase = Phase::ended;
  holdings.see_other(other);
  EXPECT_TRUE(holdings.held_by_others().empty());
  other.phase = Phase::running;
  holdings.see_other(other);
  EXPECT_TRUE(holdings.held_by_others().empty()) << "a late event";
  holdings.see_listed(other);
  EXPECT_EQ(holdings.held_by_others(), cpus("1")) << "the listing is the truth";
}

TEST(Holdings, AClaimHoldsSlotsUntilItExpires) {
  Holdings holdings(cpus("1"), {});
  holdings.begin_listing();
  Observation claim{.key = {.run = RunId("r2"), .trial = "x"}, .id = "x", .phase = Phase::created};
  claim.slots = cpus("1");
  holdings.see_other(claim);
  EXPECT_TRUE(holdings.held_by_others().empty()) << "a created container holds nothing";
  EXPECT_TRUE(holdings.see_claim(claim));
  EXPECT_FALSE(holdings.see_claim(claim)) << "it is known";
  EXPECT_EQ(holdings.held_by_others(), cpus("1"));
  holdings.forget_claim();
  EXPECT_TRUE(holdings.held_by_others().empty());
}

TEST(Holdings, GpusAreChosenAmongTheFreeOnes) {
  const std::vector<Gpu> gpus{{.id = "0", .uuid = {}, .kind = {}, .memory = {}},
                              {.id = "1", .uuid = {}, .kind = {}, .memory = {}}};
  Holdings holdings(Slots{.cpus = {}, .memory = {}, .gpus = {"0", "1"}}, gpus);
  holdings.begin_listing();
  holdings.correct_gpus(0, {"0"}, false);
  GpuRequest request;
  request.count = 1;
  EXPECT_EQ(holdings.choose_gpus(request, {}, {}), std::vector<std::string>{"1"});
  request.count = 2;
  EXPECT_EQ(holdings.choose_gpus(request, {}, {}), std::nullopt);
  holdings.give_back(0);
  EXPECT_TRUE(holdings.choose_gpus(request, {}, {}));
}

TEST(Holdings, WithoutACapacityEverythingIsFree) {
  const Holdings holdings(std::nullopt, {});
  EXPECT_FALSE(holdings.are_counted());
  EXPECT_TRUE(holdings.is_free({.slots = cpus("100"), .gpus = {}, .positions = {}}));
}

TEST(Holdings, ALineDelaysAnotherIfItTakesTheSlotsOfTheOther) {
  Holdings holdings(cpus("4"), {});
  holdings.begin_listing();
  const ReadyLines::Line large{.slots = cpus("3"), .gpus = {}, .positions = {}};
  const ReadyLines::Line small{.slots = cpus("1"), .gpus = {}, .positions = {}};
  const ReadyLines::Line none{.slots = {}, .gpus = {}, .positions = {}};
  EXPECT_FALSE(holdings.holds_up(small, large)) << "both fit";
  holdings.take(0, cpus("1"), false);
  EXPECT_TRUE(holdings.holds_up(small, large));
  EXPECT_FALSE(holdings.holds_up(none, large));
}

// ---- ServiceRoom

class ServiceRoomPart : public testing::Test {
 protected:
  Experiment experiment = test::experiment("!d=1 !e=1 s=1<-d:healthy t=1<-e:healthy");
  Plan plan = test::plan(experiment);
  [[nodiscard]] ServiceRoom make(const char* capacity) const {
    return {experiment, plan, cpus(capacity), {}, Until::ended};
  }
};

TEST_F(ServiceRoomPart, AServiceStartsOnlyIfWorkFitsBesideIt) {
  EXPECT_FALSE(make("1").may_start(0, cpus("1"), ServiceRoom::Horizon::now));
  ServiceRoom room = make("2");
  EXPECT_TRUE(room.may_start(0, cpus("2"), ServiceRoom::Horizon::now));
  room.started(0, cpus("1"));
  EXPECT_FALSE(room.may_start(1, cpus("1"), ServiceRoom::Horizon::now))
      << "nothing would be left for a trial";
  const std::size_t changes = room.changes();
  room.over(2);
  room.ended(0);
  EXPECT_GT(room.changes(), changes);
  EXPECT_TRUE(room.may_start(1, cpus("2"), ServiceRoom::Horizon::now));
}

TEST_F(ServiceRoomPart, ATrialMayRequestTheSlotsBesideItsServices) {
  const ServiceRoom room = make("3");
  EXPECT_TRUE(room.may_want(2, cpus("2"), cpus("3")));
  EXPECT_FALSE(room.may_want(2, cpus("3"), cpus("3")));
}

TEST_F(ServiceRoomPart, ATrialThatNeverFitsIsStuck) {
  EXPECT_FALSE(make("2").stuck());
  const auto stuck = make("1").stuck();
  ASSERT_TRUE(stuck);
  EXPECT_EQ(stuck->trial, 2U);
  EXPECT_THAT(stuck->beside, ElementsAre(0));
}

TEST_F(ServiceRoomPart, CompanyContainsAllTrialsThatMustRunBesideATrial) {
  experiment = test::experiment("!a !b<-a s<-b:healthy t<-s:succeeded");
  plan = test::plan(experiment);
  const auto stays = [&](TrialIndex trial) { return experiment.trials[trial].service; };
  EXPECT_THAT(company_of(2, plan, stays), ElementsAre(0, 1));
  EXPECT_THAT(company_of(3, plan, stays), IsEmpty());
}

}  // namespace
}  // namespace combu::schedule
