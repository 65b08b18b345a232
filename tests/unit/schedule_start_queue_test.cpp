// Tests of StartQueue and SlotRequests, each alone.

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "experiments.hpp"
#include "schedule/slot_requests.hpp"
#include "schedule/start_queue.hpp"
#include "schedule/trial_table.hpp"
#include "schedule_trials.hpp"

namespace combu::schedule {
namespace {

// A queue on an engine with `capacity`; no other run holds slots.
struct Queue : Trials {
  Queue(Experiment of, const char* capacity, const char* memory = "1 GiB")
      : Trials(std::move(of)), slots{.cpus = parse_cpus(capacity), .memory = parse_bytes(memory)} {
    holdings.begin_listing();
  }
  void push(TrialIndex trial) {
    table.set_ready(trial);
    queue.push(trial);
  }
  // Starts the next trial as the planner does. Returns the trial.
  std::optional<TrialIndex> start(std::size_t parallel_max = 0) {
    const auto next = queue.pop(parallel_max, false);
    if (!next) return std::nullopt;
    report(next->trial, TrialState::starting);
    holdings.take(next->trial, next->slots, false);
    return next->trial;
  }
  void end(TrialIndex trial) {
    holdings.give_back(trial);
    report(trial, TrialState::succeeded);
  }

  Slots slots;
  Holdings holdings{slots, {}};
  ServiceRoom room{experiment, plan, slots, {}, Until::ended};
  SlotRequests requests{table, plan, holdings, room, slots, Until::ended};
  StartQueue queue{experiment, plan, table, requests, holdings, room, {}};
};

TEST(StartQueue, StartsTheFirstTrialWhoseSlotsAreFree) {
  Queue it(test::experiment("a=3 b=2 c=1"), "4");
  for (TrialIndex trial = 0; trial < 3; ++trial) it.push(trial);
  EXPECT_EQ(it.start(), 0U);
  EXPECT_EQ(it.start(), 2U) << "b does not fit";
  EXPECT_EQ(it.start(), std::nullopt);
  it.end(0);
  EXPECT_EQ(it.start(), 1U);
}

TEST(StartQueue, StartsByPriority) {
  Queue it(test::experiment("a b^5 c"), "4");
  for (TrialIndex trial = 0; trial < 3; ++trial) it.push(trial);
  EXPECT_EQ(it.start(), 1U);
  EXPECT_EQ(it.start(), 0U);
  EXPECT_EQ(it.start(), 2U);
}

TEST(StartQueue, TheLimitOfLivingAttemptsDoesNotCountServices) {
  Queue it(test::experiment("a b !s"), "4");
  for (TrialIndex trial = 0; trial < 3; ++trial) it.push(trial);
  EXPECT_EQ(it.start(1), 0U);
  EXPECT_EQ(it.start(1), 2U);
  EXPECT_EQ(it.start(1), std::nullopt);
  EXPECT_EQ(it.start(2), 1U);
}

TEST(StartQueue, ATrialThatIsNotReadyLeavesTheQueue) {
  Queue it(test::experiment("a b"), "4");
  it.push(0);
  it.push(1);
  it.report(0, TrialState::blocked);
  EXPECT_EQ(it.start(), 1U);
  EXPECT_EQ(it.start(), std::nullopt);
}

TEST(StartQueue, TheNumberOfOvertakesIsLimited) {
  std::string text = "large=2 long=1";
  constexpr std::size_t k_small = Planner::k_overtakes_max + 2;
  for (std::size_t i = 0; i < k_small; ++i) text += " s" + std::to_string(i) + "=1";
  Queue it(test::experiment(text), "2");
  it.push(1);
  ASSERT_EQ(it.start(), 1U);
  it.push(0);
  for (TrialIndex trial = 2; trial < 2 + k_small; ++trial) it.push(trial);
  for (std::size_t i = 0; i < Planner::k_overtakes_max; ++i) {
    const auto small = it.start();
    ASSERT_TRUE(small) << i;
    ASSERT_GT(*small, 1U);
    it.end(*small);
  }
  EXPECT_EQ(it.start(), std::nullopt) << "the large one has waited long enough";
  it.end(1);
  EXPECT_EQ(it.start(), 0U);
}

TEST(SlotRequests, MemoryGrowsUpToTheMemoryOfTheEngine) {
  Experiment experiment = test::experiment("a");
  experiment.trials[0].slots.memory = parse_bytes("300 MiB");
  experiment.trials[0].retries.grow_memory = 2;
  Queue it(experiment, "4");
  EXPECT_EQ(it.requests.of(0).memory, parse_bytes("300 MiB"));
  it.requests.grow_memory(0, true);
  EXPECT_EQ(it.requests.of(0).memory, parse_bytes("600 MiB"));
  it.requests.grow_memory(0, true);
  EXPECT_EQ(it.requests.of(0).memory, parse_bytes("1 GiB"));
  it.requests.reset(0);
  EXPECT_EQ(it.requests.of(0).memory, parse_bytes("300 MiB"));
}

TEST(SlotRequests, GrownMemoryLeavesTheMemoryOfItsServices) {
  Experiment experiment = test::experiment("!s a<-s:started");
  experiment.trials[0].slots.memory = parse_bytes("256 MiB");
  experiment.trials[1].slots.memory = parse_bytes("512 MiB");
  experiment.trials[1].retries.grow_memory = 2;
  Queue it(experiment, "4");
  it.requests.grow_memory(1, true);
  EXPECT_EQ(it.requests.of(1).memory, parse_bytes("768 MiB"));
}

}  // namespace
}  // namespace combu::schedule
