// The planner: services leave room for the trials that they serve.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "schedule_planned.hpp"

namespace combu::test {
namespace {

PlannerOptions waiting_with_cpus(const char* cpus) {
  return {.starts_in_flight_max = 100, .until = Until::ended, .capacity = Planned::cpus(cpus)};
}

TEST(ServiceRoom, IsKeptWhileTheFirstServiceIsNotHealthyYet) {
  Planned it("!d1=2 !d2=2 !d3=2 s1=2<-d1:healthy s2=2<-d2:healthy s3=2<-d3:healthy", waiting_with_cpus("6"));
  EXPECT_EQ(it.begin(), "start d1, start d2 | d1 starting, d2 starting");
  EXPECT_EQ(it.started("d1"), " | d1 running");
  EXPECT_EQ(it.started("d2"), " | d2 running") << "with d3 nothing would be left";
  EXPECT_EQ(it.health("d1", Health::healthy), "start s1 | d1 healthy, s1 starting");
  EXPECT_EQ(it.health("d2", Health::healthy), " | d2 healthy");
  EXPECT_EQ(it.ended("s1", 0), "stop d1, start s2 | s1 running, s1 succeeded, s2 starting");
  EXPECT_EQ(it.ended("d1", 143), "start d3 | d1 stopped, d3 starting");
}

TEST(ServiceRoom, IsKeptBesideWhatOthersHold) {
  Planned it("!d1=0.5 !d2=0.5 !d3=0.5 s1=1<-d1 s2=1<-d2 s3=1<-d3", waiting_with_cpus("2"));
  Sighting other = it.sighting("d1", Phase::running);
  other.key.run = RunId("other");
  other.id = "x";
  other.slots = Planned::cpus("0.5");
  (void)it.seen(other);
  EXPECT_EQ(it.begin(), "start d1 | d1 starting");
  EXPECT_EQ(it.started("d1"), "start s1 | d1 running, s1 starting");
  EXPECT_EQ(it.started("s1"), " | s1 running");
  other.phase = Phase::ended;
  EXPECT_EQ(it.seen(other), "start d2 | d2 starting");
  other.phase = Phase::running;
  other.id = "y";
  other.slots = Planned::cpus("1.5");
  EXPECT_EQ(it.ended("s1", 0), "stop d1 | s1 succeeded");
  EXPECT_EQ(it.started("d2"), "start s2 | d2 running, s2 starting");
}

TEST(ServiceRoom, AServiceWaitsUntilThoseThatItServesFitBesideOtherRuns) {
  Planned it("!d=1 s=1<-d:healthy", waiting_with_cpus("3"));
  (void)it.other("x", Phase::running);
  EXPECT_EQ(it.begin(), " | ");
  EXPECT_EQ(it.other("x", Phase::ended), "start d | d starting");
}

TEST(ServiceRoom, AServiceThatIsHeldBackHoldsUpNobody) {
  Planned it("long=2 !d1=1 !d2=1 !d3=1 a=7<-d1 b=7<-d2 c=1<-d3 e=1", waiting_with_cpus("8"));
  EXPECT_EQ(it.begin(),
            "start long, start d1, start d3, start e | long starting, d1 starting, d3 starting, "
            "e starting");
  EXPECT_EQ(it.started("d3"), "start c | d3 running, c starting");
}

TEST(ServiceRoom, IsNotKeptForWhatIsNoService) {
  Planned it("prep=4^10 main=6^10<-prep a=1 b=1 c=1 d=1 e=1", waiting_with_cpus("8"));
  EXPECT_EQ(it.begin(),
            "start prep, start a, start b, start c, start d | prep starting, a starting, b starting, "
            "c starting, d starting");
}

// Three services, each needed with each other one: only two at a time fit, and those two are needed with the
// third.
TEST(ServiceRoom, WhatNoOrderWouldServeIsToldBefore) {
  const Experiment experiment = test::experiment("!x=1 !y=1 !z=1 a<-x,y b<-y,z c<-z,x");
  const auto errors = check_slots(experiment, Planned::cpus("2"), {});
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_STREQ(errors[0].what(),
               "b: wants 3 CPUs together with `x`, `y`, `z`, which run beside it, but the engine has 2 CPUs "
               "to give: others still need these when its turn comes, in whatever order");
  EXPECT_TRUE(check_slots(experiment, Planned::cpus("3"), {}).empty());
}

// With s beside t there is no room for x, which t serves, too; but t is stopped later.
TEST(ServiceRoom, ServicesAreSharedInTurn) {
  Planned it("!s=1 !t=1 !y=1 w=1<-s,t x=2<-t,y", waiting_with_cpus("4"));
  (void)it.begin();
  for (int round = 0; round < 3; ++round) {
    for (const char* name : {"s", "t", "y", "w", "x"})
      if (it.state(name) == TrialState::starting) (void)it.started(name);
    for (const char* name : {"w", "x"})
      if (it.state(name) == TrialState::running) (void)it.ended(name, 0);
    for (const char* name : {"s", "t", "y"})
      if (it.state(name) == TrialState::running) (void)it.ended(name, 143);
    if (it.done()) break;
  }
  EXPECT_EQ(it.state("w"), TrialState::succeeded);
  EXPECT_EQ(it.state("x"), TrialState::succeeded);
}

// Behind more wishes than are looked at, each of which waits for the service to end.
TEST(ServiceRoom, WhatAServiceServesStartsHoweverManyWaitBefore) {
  Experiment experiment = test::experiment("!d=1 s=1<-d");
  for (std::int64_t i = 0; i < 1500; ++i) {
    Trial large{.name = fmt::format("l{}", i), .image = "image", .priority = 1};
    large.slots = {.cpus = parse_cpus("2"), .memory = Bytes{i + 1}, .gpus = {}};
    experiment.trials.push_back(std::move(large));
  }
  PlannerOptions options = waiting_with_cpus("2");
  options.capacity->memory = Bytes{10000};
  options.past.resize(experiment.trials.size());
  options.past[0] = {.state = TrialState::running, .was_started = true};
  Planned it(std::move(experiment), options);
  (void)it.begin();
  EXPECT_EQ(it.listed({it.sighting("d", Phase::running)}), "start s | s starting");
}

TEST(ServiceRoom, WithoutAnybodyWhoStopsThemAllServicesMustFit) {
  const Experiment experiment = test::experiment("!d1=1 !d2=1 s1=1<-d1 s2=1<-d2");
  EXPECT_TRUE(check_slots(experiment, Planned::cpus("2"), {}, Until::ended).empty());
  const auto errors = check_slots(experiment, Planned::cpus("2"), {}, Until::started);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_STREQ(errors[0].what(),
               "s1: wants 3 CPUs together with `d1`, `d2`, which run beside it, but the engine has 2 CPUs to "
               "give: without `run --wait` no service is stopped when its work is done, and 1 more wants the "
               "same");
  EXPECT_TRUE(check_slots(experiment, Planned::cpus("3"), {}, Until::started).empty());
}

PlannerOptions waiting_with_gpus() {
  PlannerOptions options = with_gpus();
  options.until = Until::ended;
  return options;
}

TEST(ServiceRoom, OfGpusIsKeptByTheirKind) {
  const GpuWish t4{.count = 1, .kind = "t4"};
  Planned it(with_wishes("!d1 !d2 s1<-d1 s2<-d2", {{"d1", t4}, {"d2", t4}, {"s1", t4}, {"s2", t4}}),
             waiting_with_gpus());
  EXPECT_EQ(it.begin(), "start d1 | d1 starting") << "the H100 is of no use to s1";
  EXPECT_EQ(it.started("d1"), "start s1 | d1 running, s1 starting");
}

TEST(ServiceRoom, AServiceLeavesTheGpuThatWhatItServesIsNamedFor) {
  Planned it(with_wishes("!d s<-d", {{"d", {.count = 1}}, {"s", {.count = 1, .ids = {"0"}}}}),
             waiting_with_gpus());
  EXPECT_EQ(it.begin(), "start d | d starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("1"));
}

TEST(ServiceRoom, AServiceThatStandsLeavesTheGpusOfAll) {
  Planned it(with_wishes("!monitor a b", {{"monitor", {.count = 1}},
                                          {"a", {.count = 1, .ids = {"0"}}},
                                          {"b", {.count = 1, .ids = {"1"}}}}),
             waiting_with_gpus());
  EXPECT_EQ(it.begin(), "start monitor, start a, start b | monitor starting, a starting, b starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("2", "0", "1"));
}

TEST(ServiceRoom, WhatIsNoServiceLeavesTheGpuOfThoseThatNeedItToo) {
  Planned it(with_wishes("loader s<-loader", {{"loader", {.count = 1}}, {"s", {.count = 1, .ids = {"0"}}}}),
             waiting_with_gpus());
  EXPECT_EQ(it.begin(), "start loader | loader starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("1"));
}

TEST(ServiceRoom, AServiceThatSeveralOthersNeedIsCountedOnce) {
  Planned it("!a=1 !b=1<-a !c=1<-a w=1<-b,c", waiting_with_cpus("4"));
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_EQ(it.started("a"), "start b, start c | a running, b starting, c starting");
}

TEST(ServiceRoom, IsKeptForAllThatStandInAChain) {
  Planned it("!a=1 !b=1<-a w=1<-b", waiting_with_cpus("4"));
  (void)it.other("x", Phase::running);
  EXPECT_EQ(it.begin(), " | ") << "two CPUs are free, and three are wanted";
  EXPECT_EQ(it.other("x", Phase::ended), "start a | a starting");
}

TEST(ServiceRoom, IsKeptForAServiceThatStandsAsLongAsTheRun) {
  Planned it("!board=2 !d=1 w=1<-d", waiting_with_cpus("4"));
  (void)it.other("x", Phase::running);
  EXPECT_EQ(it.begin(), " | ");
  EXPECT_EQ(it.other("x", Phase::ended), "start board, start d | board starting, d starting");
}

// w1 has room only before d starts; and w2 only after t has been stopped.
TEST(ServiceRoom, ThoseThatNeedNoFurtherServiceGoFirst) {
  Planned it("!t=1 !d=1 w0=1<-t,d w1=3<-t w2=3<-d", waiting_with_cpus("4"));
  EXPECT_EQ(it.begin(), "start t | t starting");
  EXPECT_EQ(it.started("t"), "start w1 | t running, w1 starting");
  EXPECT_EQ(it.ended("w1", 0), "start d | w1 running, w1 succeeded, d starting");
}

TEST(ServiceRoom, IsKeptForAServiceThatWillBeTriedAgain) {
  Experiment experiment = test::experiment("!d1=1 !d2=1 w=1<-d1:healthy,d2:healthy");
  experiment.trials[0].retries = {.max = 1, .pause = Seconds(20)};
  experiment.trials[0].retries.on.set();
  PlannerOptions options = waiting_with_cpus("4");
  options.starts_in_flight_max = 1;
  Planned it(std::move(experiment), std::move(options));
  EXPECT_EQ(it.begin(), "start d1 | d1 starting");
  (void)it.pause();
  (void)it.started("d1");
  (void)it.other("x", Phase::running);
  (void)it.ended("d1", 1);
  EXPECT_EQ(it.resume(), " | ") << "d1, d2 and w want three CPUs, and two are free";
  EXPECT_EQ(it.other("x", Phase::ended), "start d2 | d2 starting");
}

TEST(ServiceRoom, AServiceLeavesTheGpusThatAnEarlierProcessHasGivenAway) {
  const GpuWish t4{.count = 1, .kind = "t4"};
  PlannerOptions options = waiting_with_gpus();
  options.past.resize(3);
  options.past[0] = {.state = TrialState::running, .was_started = true};
  Planned it(with_wishes("!d1 !d2 w<-d1,d2", {{"d1", t4}, {"d2", {.count = 1}}, {"w", t4}}),
             std::move(options));
  (void)it.begin();
  Sighting runs = it.sighting("d1", Phase::running);
  runs.slots.gpus = {"0"};
  EXPECT_EQ(it.listed({runs}), "start d2 | d2 starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("0", "2")) << "w needs the other T4";
}

}  // namespace
}  // namespace combu::test
