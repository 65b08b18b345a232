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

TEST(ServiceRoom, RoomIsKeptWhileTheFirstServiceIsNotHealthyYet) {
  Planned it("!d1=2 !d2=2 !d3=2 s1=2<-d1:healthy s2=2<-d2:healthy s3=2<-d3:healthy", waiting_with_cpus("6"));
  EXPECT_EQ(it.begin(), "start d1, start d2 | d1 starting, d2 starting");
  EXPECT_EQ(it.started("d1"), " | d1 running");
  EXPECT_EQ(it.started("d2"), " | d2 running") << "with d3 nothing would be left";
  EXPECT_EQ(it.health("d1", Health::healthy), "start s1 | d1 healthy, s1 starting");
  EXPECT_EQ(it.health("d2", Health::healthy), " | d2 healthy");
  EXPECT_EQ(it.ended("s1", 0), "stop d1, start s2 | s1 running, s1 succeeded, s2 starting");
  EXPECT_EQ(it.ended("d1", 143), "start d3 | d1 stopped, d3 starting");
}

TEST(ServiceRoom, RoomIsKeptBesideTheSlotsOfOtherRuns) {
  Planned it("!d1=0.5 !d2=0.5 !d3=0.5 s1=1<-d1 s2=1<-d2 s3=1<-d3", waiting_with_cpus("2"));
  Observation other = it.observation("d1", Phase::running);
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

TEST(ServiceRoom, AServiceWaitsUntilItsDependentsFitBesideOtherRuns) {
  Planned it("!d=1 s=1<-d:healthy", waiting_with_cpus("3"));
  (void)it.other("x", Phase::running);
  EXPECT_EQ(it.begin(), " | ");
  EXPECT_EQ(it.other("x", Phase::ended), "start d | d starting");
}

TEST(ServiceRoom, AServiceWithoutRoomDelaysNoOtherTrial) {
  Planned it("long=2 !d1=1 !d2=1 !d3=1 a=7<-d1 b=7<-d2 c=1<-d3 e=1", waiting_with_cpus("8"));
  EXPECT_EQ(it.begin(),
            "start long, start d1, start d3, start e | long starting, d1 starting, d3 starting, "
            "e starting");
  EXPECT_EQ(it.started("d3"), "start c | d3 running, c starting");
}

TEST(ServiceRoom, NoRoomIsKeptForDependentsOfATrialThatIsNotAService) {
  Planned it("prep=4^10 main=6^10<-prep a=1 b=1 c=1 d=1 e=1", waiting_with_cpus("8"));
  EXPECT_EQ(it.begin(),
            "start prep, start a, start b, start c, start d | prep starting, a starting, b starting, "
            "c starting, d starting");
}

// Three services: each pair is needed by one trial. Only two services fit at a time, and each of these two is
// also needed together with the third.
TEST(ServiceRoom, AnExperimentThatCanRunInNoOrderIsRefused) {
  const Experiment experiment = test::experiment("!x=1 !y=1 !z=1 a<-x,y b<-y,z c<-z,x");
  const auto errors = check_slots(experiment, Planned::cpus("2"), {});
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_STREQ(
      errors[0].what(),
      "b: needs 3 CPUs together with `x`, `y`, `z`, which run at the same time, but the engine has 2 CPUs; "
      "combu cannot stop these services before this trial starts: in every order of starts, other trials "
      "still need them");
  EXPECT_TRUE(check_slots(experiment, Planned::cpus("3"), {}).empty());
}

// With s beside t there is no room for x, which t also serves. But s is stopped when w is over.
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

// More trials are in line before `s` than one scan of the queue visits. Each of them waits for the service to
// end.
TEST(ServiceRoom, ADependentOfAServiceStartsBehindManyWaitingTrials) {
  Experiment experiment = test::experiment("!d=1 s=1<-d");
  for (std::int64_t i = 0; i < 1500; ++i) {
    Trial large{.name = fmt::format("l{}", i), .image = "image", .priority = 1};
    large.slots = {.cpus = parse_cpus("2"), .memory = Bytes{i + 1}, .gpus = {}};
    experiment.trials.push_back(std::move(large));
  }
  PlannerOptions options = waiting_with_cpus("2");
  options.capacity->memory = Bytes{10000};
  options.restored.resize(experiment.trials.size());
  options.restored[0] = {.state = TrialState::running, .was_started = true};
  Planned it(std::move(experiment), options);
  (void)it.begin();
  EXPECT_EQ(it.listed({it.observation("d", Phase::running)}), "start s | s starting");
}

TEST(ServiceRoom, AllServicesMustFitIfNoServiceIsStopped) {
  const Experiment experiment = test::experiment("!d1=1 !d2=1 s1=1<-d1 s2=1<-d2");
  EXPECT_TRUE(check_slots(experiment, Planned::cpus("2"), {}, Until::ended).empty());
  const auto errors = check_slots(experiment, Planned::cpus("2"), {}, Until::started);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_STREQ(
      errors[0].what(),
      "s1: needs 3 CPUs together with `d1`, `d2`, which run at the same time, but the engine has 2 CPUs; "
      "without `run --wait`, combu stops no service (and 1 more like this)");
  EXPECT_TRUE(check_slots(experiment, Planned::cpus("3"), {}, Until::started).empty());
}

PlannerOptions waiting_with_gpus() {
  PlannerOptions options = with_gpus();
  options.until = Until::ended;
  return options;
}

TEST(ServiceRoom, RoomForGpusIsKeptByKind) {
  const GpuRequest t4{.count = 1, .kind = "t4"};
  Planned it(with_wishes("!d1 !d2 s1<-d1 s2<-d2", {{"d1", t4}, {"d2", t4}, {"s1", t4}, {"s2", t4}}),
             waiting_with_gpus());
  EXPECT_EQ(it.begin(), "start d1 | d1 starting") << "the H100 is of no use to s1";
  EXPECT_EQ(it.started("d1"), "start s1 | d1 running, s1 starting");
}

TEST(ServiceRoom, AServiceLeavesTheGpuThatItsDependentNames) {
  Planned it(with_wishes("!d s<-d", {{"d", {.count = 1}}, {"s", {.count = 1, .ids = {"0"}}}}),
             waiting_with_gpus());
  EXPECT_EQ(it.begin(), "start d | d starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("1"));
}

TEST(ServiceRoom, AStandingServiceLeavesTheGpusOfAllTrials) {
  Planned it(with_wishes("!monitor a b", {{"monitor", {.count = 1}},
                                          {"a", {.count = 1, .ids = {"0"}}},
                                          {"b", {.count = 1, .ids = {"1"}}}}),
             waiting_with_gpus());
  EXPECT_EQ(it.begin(), "start monitor, start a, start b | monitor starting, a starting, b starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("2", "0", "1"));
}

TEST(ServiceRoom, ATrialThatServesOthersLeavesTheirGpus) {
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

TEST(ServiceRoom, RoomIsKeptForAChainOfServices) {
  Planned it("!a=1 !b=1<-a w=1<-b", waiting_with_cpus("4"));
  (void)it.other("x", Phase::running);
  EXPECT_EQ(it.begin(), " | ") << "two CPUs are free, and three are wanted";
  EXPECT_EQ(it.other("x", Phase::ended), "start a | a starting");
}

TEST(ServiceRoom, RoomIsKeptForAStandingService) {
  Planned it("!board=2 !d=1 w=1<-d", waiting_with_cpus("4"));
  (void)it.other("x", Phase::running);
  EXPECT_EQ(it.begin(), " | ");
  EXPECT_EQ(it.other("x", Phase::ended), "start board, start d | board starting, d starting");
}

// w1 has room only before d starts, and w2 only after t has been stopped.
TEST(ServiceRoom, TrialsThatNeedNoFurtherServiceGoFirst) {
  Planned it("!t=1 !d=1 w0=1<-t,d w1=3<-t w2=3<-d", waiting_with_cpus("4"));
  EXPECT_EQ(it.begin(), "start t | t starting");
  EXPECT_EQ(it.started("t"), "start w1 | t running, w1 starting");
  EXPECT_EQ(it.ended("w1", 0), "start d | w1 running, w1 succeeded, d starting");
}

TEST(ServiceRoom, RoomIsKeptForAServiceThatWillBeRetried) {
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

TEST(ServiceRoom, AServiceCountsTheGpusThatAnEarlierProcessAssigned) {
  const GpuRequest t4{.count = 1, .kind = "t4"};
  PlannerOptions options = waiting_with_gpus();
  options.restored.resize(3);
  options.restored[0] = {.state = TrialState::running, .was_started = true};
  Planned it(with_wishes("!d1 !d2 w<-d1,d2", {{"d1", t4}, {"d2", {.count = 1}}, {"w", t4}}),
             std::move(options));
  (void)it.begin();
  Observation runs = it.observation("d1", Phase::running);
  runs.slots.gpus = {"0"};
  EXPECT_EQ(it.listed({runs}), "start d2 | d2 starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("0", "2")) << "w needs the other T4";
}

// d1 and w take the small GPUs, and d2 the large one.
TEST(ServiceRoom, AServiceLeavesTheGpusOfItsDependents) {
  const GpuRequest t4{.count = 1, .kind = "t4"};
  const GpuRequest any{.count = 1};
  Planned served(with_wishes("!d1 !d2 w<-d1,d2", {{"d1", t4}, {"d2", any}, {"w", t4}}), waiting_with_gpus());
  EXPECT_EQ(served.begin(), "start d1, start d2 | d1 starting, d2 starting");
  EXPECT_THAT(served.held().gpus, testing::ElementsAre("0", "2")) << "w needs the other small one";
  Planned service(with_wishes("!d1 !d2 !d3 w<-d1,d2,d3", {{"d1", t4}, {"d2", any}, {"d3", t4}}),
                  waiting_with_gpus());
  EXPECT_EQ(service.begin(), "start d1, start d2, start d3 | d1 starting, d2 starting, d3 starting");
  Planned standing(with_wishes("!board !d w<-d", {{"board", t4}, {"d", any}, {"w", t4}}),
                   waiting_with_gpus());
  EXPECT_EQ(standing.begin(), "start board, start d | board starting, d starting");
  EXPECT_THAT(standing.held().gpus, testing::ElementsAre("0", "2"));
}

TEST(ServiceRoom, DependentsOfAServiceMayUseTheSameGpusInTurn) {
  Planned it(with_wishes("!d1=1 !d2 a<-d1,d2 b<-d1,d2",
                         {{"d2", {.count = 1}}, {"a", {.count = 2, .kind = "t4"}}, {"b", {.count = 2}}}),
             waiting_with_gpus());
  EXPECT_EQ(it.begin(), "start d1, start d2 | d1 starting, d2 starting");
}

TEST(ServiceRoom, AServiceLeavesNoGpusForTrialsThatAreOver) {
  Experiment experiment =
      with_wishes("!d a<-d !e x<-e:healthy,d:healthy",
                  {{"d", {.count = 1}}, {"a", {.count = 1, .ids = {"1"}}}, {"e", {.count = 1}}});
  experiment.trials[0].retries = {.max = 1, .pause = Seconds(20)};
  experiment.trials[0].retries.on.set();
  PlannerOptions options = waiting_with_gpus();
  options.capacity->gpus = {"0", "1"};
  options.gpus.pop_back();
  options.starts_in_flight_max = 1;
  Planned it(std::move(experiment), std::move(options));
  EXPECT_EQ(it.begin(), "start d | d starting");
  EXPECT_EQ(it.started("d"), "start a | d running, a starting");
  (void)it.pause();
  (void)it.started("a");
  (void)it.ended("a", 0);
  (void)it.ended("d", 1);
  EXPECT_EQ(it.resume(), "start e | e starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("0"));
}

TEST(ServiceRoom, NoRoomIsKeptForAServiceThatIsOver) {
  PlannerOptions options = waiting_with_cpus("4");
  options.starts_in_flight_max = 1;
  Planned it("!d=1 !e=1 w=1<-d,e:healthy", options);
  EXPECT_EQ(it.begin(), "start d | d starting");
  (void)it.pause();
  (void)it.started("d");
  EXPECT_EQ(it.ended("d", 1), "collect d | d failed (exit code 1)");
  (void)it.other("x", Phase::running);
  EXPECT_EQ(it.resume(), "start e | e starting") << "e and w want two CPUs";
}

TEST(ServiceRoom, NoRoomIsKeptForAServiceThatIsNotRetriedAfterAll) {
  Experiment experiment = test::experiment("!d1=1 !d2=1 w=1<-d1,d2:healthy busy");
  experiment.trials[0].retries = {.max = 1, .pause = Seconds(20)};
  experiment.trials[0].retries.on.set();
  PlannerOptions options = waiting_with_cpus("4");
  options.starts_in_flight_max = 1;
  Planned it(std::move(experiment), std::move(options));
  (void)it.begin();
  (void)it.pause();
  (void)it.started("d1");
  (void)it.other("x", Phase::running);
  (void)it.ended("d1", 1);
  EXPECT_EQ(it.resume(), "start busy | busy starting");
  EXPECT_EQ(it.started("busy"), " | busy running");
  EXPECT_EQ(
      it.adjust({.stopping = {"d1"}, .stopper = "alice"}),
      "start d2 | d1 failed (exit code 1; not retried: stopped by alice with `combu stop`), d2 starting");
}

// There is room for z only after d1 has been stopped.
TEST(ServiceRoom, ServicesMakeRoomOnlyIfTheyAreStopped) {
  const std::string text = "!d1=1 !d2=1 s=1<-d1 y=1<-d1,d2 z=3<-d2";
  Planned stopped(text, waiting_with_cpus("4"));
  EXPECT_EQ(stopped.begin(), "start d1 | d1 starting");
  PlannerOptions options = waiting_with_cpus("4");
  options.until = Until::started;
  Planned left(text, options);
  EXPECT_THAT(left.begin(), testing::StartsWith("start d2,")) << "d1 would never be stopped";
}

// v has already been stopped when the other trials cannot run.
TEST(ServiceRoom, ARefusalNamesTheServicesThatAreStillNeeded) {
  const Experiment experiment = test::experiment("!v=1 !x=1 !y=1 !z=1 q=1<-v r<-v,x a<-x,y b<-y,z c<-z,x");
  const auto errors = check_slots(experiment, Planned::cpus("2"), {});
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_THAT(
      errors[0].what(),
      testing::StartsWith("b: needs 3 CPUs together with `x`, `y`, `z`, which run at the same time, but"));
}

TEST(ServiceRoom, ARefusalNamesTheTrialThatNeedsMost) {
  const GpuRequest one{.count = 1};
  Experiment experiment =
      with_wishes("!x=1 !y=1 !z=1 a<-x,y b=0.25<-y,z b2=0.5<-y,z c<-z,x", {{"b", one}, {"b2", one}});
  const std::vector<Gpu> gpus{{.id = "0", .uuid = {}, .kind = {}, .memory = {}}};
  Slots capacity = Planned::cpus("2.5");
  capacity.gpus = {"0"};
  const auto errors = check_slots(experiment, capacity, gpus);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_THAT(errors[0].what(),
              testing::StartsWith("b2: needs 3.5 CPUs and 1 GPU together with `x`, `y`, `z`"));
}

// With d beside t there is no room for w0. There is room after w1 has ended and u and e have been stopped.
TEST(ServiceRoom, AServiceWithoutRoomDoesNotTakeSlots) {
  Planned it("!u=2 !t=1 !d=2 !e=2 w0=3<-t,d w1=1<-u,t,e", waiting_with_cpus("6"));
  EXPECT_EQ(it.begin(), "start u, start t, start e | u starting, t starting, e starting");
}

TEST(ServiceRoom, AServiceWithoutSlotsStartsAtOnce) {
  Planned beside("!d !e=1 w=3<-d x=1<-e", waiting_with_cpus("4"));
  (void)beside.other("x", Phase::running);
  EXPECT_EQ(beside.begin(), "start d, start e | d starting, e starting");
  Planned alone("!board w=3", waiting_with_cpus("4"));
  (void)alone.other("x", Phase::running);
  EXPECT_EQ(alone.begin(), "start board | board starting");
}

TEST(ServiceRoom, AServiceThatAStandingServiceNeedsStandsToo) {
  Planned it("!base=1 !board=0.5<-base w=1<-base x=3<-w:succeeded", waiting_with_cpus("6"));
  (void)it.other("y", Phase::running);
  EXPECT_EQ(it.begin(), " | ") << "base, board and x want 4.5 CPUs";
  EXPECT_EQ(it.other("y", Phase::ended), "start base | base starting");
}

// d1 is not healthy yet, and nothing else will end. Then d2 may start, although s2 has to wait until d1 is
// stopped.
TEST(ServiceRoom, AServiceMayStartIfItsDependentsCanRunInTurn) {
  Planned it("!d1=1 !d2=2 s1=1<-d1:healthy s2=2<-d2:healthy", waiting_with_cpus("4"));
  EXPECT_EQ(it.begin(), "start d1 | d1 starting");
  EXPECT_EQ(it.started("d1"), "start d2 | d1 running, d2 starting");
}

TEST(ServiceRoom, AServiceIsStoppedWhenItsLastDependentIsOver) {
  Planned it("!d1=1 !k=1 !d2=2 s0=1<-d1 s1=1<-d1,k:healthy s2=3<-d2", waiting_with_cpus("5"));
  EXPECT_EQ(it.begin(), "start d1, start k | d1 starting, k starting");
  EXPECT_EQ(it.started("d1"), "start s0 | d1 running, s0 starting");
  EXPECT_EQ(it.started("k"), " | k running");
  EXPECT_EQ(it.started("s0"), " | s0 running");
  EXPECT_EQ(it.ended("s0", 0), "start d2 | s0 succeeded, d2 starting");
}

TEST(ServiceRoom, RoomIsKeptForTheGrownMemoryOfAService) {
  Experiment experiment = test::experiment("!d1 !e w<-d1:healthy,e:healthy");
  experiment.trials[0].retries = {.max = 1, .grow_memory = 2};
  experiment.trials[0].retries.on.set();
  experiment.trials[0].slots.memory = Bytes{20};
  experiment.trials[1].slots.memory = Bytes{30};
  experiment.trials[2].slots.memory = Bytes{40};
  Planned it(std::move(experiment), {.starts_in_flight_max = 1,
                                     .until = Until::ended,
                                     .capacity = Slots{.cpus = {}, .memory = Bytes{120}, .gpus = {}}});
  EXPECT_EQ(it.begin(), "start d1 | d1 starting");
  (void)it.pause();
  (void)it.started("d1");
  Observation other = it.observation("w", Phase::running);
  other.key.run = RunId("other");
  other.id = "x";
  other.slots.memory = Bytes{20};
  (void)it.seen(other);
  (void)it.out_of_memory("d1");
  EXPECT_EQ(it.resume(), " | ") << "40, 30 and 40";
  other.phase = Phase::ended;
  EXPECT_EQ(it.seen(other), "start e | e starting");
}

// As in AServiceMayStartIfItsDependentsCanRunInTurn; e has to wait for other runs.
TEST(ServiceRoom, ALaterServiceMayStartIfItsDependentsCanRunInTurn) {
  Planned it("!d1=1 !k !e=5 !d2=2<-k:healthy s1=1<-d1:healthy s2=2<-d2:healthy v=1<-e",
             waiting_with_cpus("6"));
  (void)it.other("x", Phase::running);
  EXPECT_EQ(it.begin(), "start d1, start k | d1 starting, k starting");
  EXPECT_EQ(it.started("d1"), " | d1 running");
  EXPECT_EQ(it.started("k"), " | k running");
  EXPECT_EQ(it.health("k", Health::healthy), "start d2 | k healthy, d2 starting");
}

// While attempts run, a scan visits only some of the services that were set aside, because another scan will
// follow.
TEST(ServiceRoom, ServicesBehindManyOthersAreTriedWhenTheRunIsIdle) {
  std::string text = "busy=0.5";
  for (int i = 0; i < 120; ++i) text += fmt::format(" !d{0}=3 u{0}<-d{0}", i);
  Planned it(text + " !e=1 v<-e", waiting_with_cpus("4"));
  Observation other = it.observation("v", Phase::running);
  other.key.run = RunId("other");
  other.id = "x";
  other.slots = Planned::cpus("2");
  (void)it.seen(other);
  (void)it.other("y", Phase::running);
  EXPECT_EQ(it.begin(), " | ");
  other.slots = Planned::cpus("1.5");
  EXPECT_EQ(it.seen(other), "start busy | busy starting");
  (void)it.started("busy");
  EXPECT_EQ(it.other("y", Phase::ended), " | ") << "there is room for e";
  EXPECT_EQ(it.ended("busy", 0), "start e | busy succeeded, e starting");
}

}  // namespace
}  // namespace combu::test
