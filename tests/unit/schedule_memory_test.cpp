// The planner: memory that grows after an attempt ran out of memory.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "schedule_planned.hpp"

namespace combu::test {
namespace {

Experiment growing(const std::string& text, const std::map<std::string, std::int64_t>& memory) {
  Experiment experiment = with_retries(text, {.max = 3, .pause = Seconds(0), .grow_memory = 2});
  for (Trial& trial : experiment.trials) trial.slots.memory = Bytes{memory.at(trial.name)};
  return experiment;
}

void run_out_of_memory(Planned& it, const std::string& name) {
  if (it.state(name) == TrialState::starting) (void)it.started(name);
  (void)it.out_of_memory(name);
  (void)it.collected(name);
  (void)it.pass(0);
}

TEST(Retries, MemoryGrowsAfterOutOfMemoryAndIsReserved) {
  Experiment experiment = with_retries("a b", {.max = 3, .grow_memory = 1.5});
  for (Trial& trial : experiment.trials) trial.slots.memory = Bytes{1000};
  Planned it(experiment, {.capacity = Slots{.cpus = {}, .memory = Bytes{2100}}});
  EXPECT_EQ(it.begin(), "start a, start b | a starting, b starting");
  (void)it.started("a");
  (void)it.started("b");
  EXPECT_EQ(it.out_of_memory("a"),
            "collect a | a retrying (out of memory at 1000 B (exit code 137, SIGKILL); "
            "attempt 2 in 1.0 s)");
  (void)it.collected("a");
  EXPECT_EQ(it.pass(1), " | a ready") << "1500 are not free beside b";
  EXPECT_EQ(it.ended("b", 0), "start a#2 | b succeeded, a starting");
  EXPECT_EQ(it.held().memory, Bytes{1500});
  (void)it.started("a");
  (void)it.out_of_memory("a");
  (void)it.collected("a");
  (void)it.pass(2);
  EXPECT_EQ(it.held().memory, Bytes{2100}) << "no more than there is";
}

TEST(Retries, MemoryGrowsAfterAnEndThatWasLikelyOutOfMemory) {
  Experiment experiment = with_retries("a", {.max = 1, .grow_memory = 2});
  experiment.trials[0].slots.memory = parse_bytes("1g");
  Planned it(experiment, {.capacity = Slots{.cpus = {}, .memory = parse_bytes("4g"), .gpus = {}}});
  (void)it.begin();
  (void)it.started("a");
  Observation killed = it.observation("a", Phase::ended);
  killed.exit_code = 137;
  killed.oom_likely = true;
  EXPECT_EQ(it.seen(killed),
            "collect a | a retrying (perhaps out of memory at 1 GiB (exit code 137, SIGKILL); attempt 2 in "
            "1.0 s)");
  (void)it.collected("a");
  EXPECT_EQ(it.pass(2), "start a#2 | a starting");
  EXPECT_EQ(it.held().memory, parse_bytes("2g"));
}

TEST(Retries, MemoryDoesNotGrowIntoTheMemoryOfServices) {
  Experiment experiment = with_retries("!db a", {.max = 1, .grow_memory = 2});
  experiment.trials[0].slots.memory = Bytes{1000};
  experiment.trials[1].slots.memory = Bytes{10000};
  Planned it(experiment, {.capacity = Slots{.cpus = {}, .memory = Bytes{16000}}});
  (void)it.begin();
  (void)it.started("db");
  (void)it.started("a");
  (void)it.out_of_memory("a");
  (void)it.collected("a");
  EXPECT_EQ(it.pass(1), "start a#2 | a starting");
  EXPECT_EQ(it.held().memory, Bytes{16000});
}

TEST(Retries, MemoryGrowsUpToTheMemoryBesideTheTrialsOwnServices) {
  // All three services together would leave no memory.
  Planned it(growing("!d1 !d2 !d3 a<-d1 b<-d2 c<-d3",
                     {{"d1", 40}, {"d2", 40}, {"d3", 40}, {"a", 10}, {"b", 10}, {"c", 10}}),
             {.until = Until::ended, .capacity = Slots{.cpus = {}, .memory = Bytes{100}, .gpus = {}}});
  EXPECT_EQ(it.begin(), "start d1, start d2 | d1 starting, d2 starting");
  (void)it.started("d1");
  run_out_of_memory(it, "a");
  EXPECT_EQ(it.held().memory, Bytes{100}) << "40, 40 and 20";
}

// Each trial could get more memory when the other is over. The second one gets only the memory that is free
// at its retry, because otherwise both would wait for ever.
TEST(Retries, TwoTrialsThatGrowDoNotWaitForEachOther) {
  Planned it(growing("!d1 !d2 a<-d1 b<-d2", {{"d1", 30}, {"d2", 30}, {"a", 25}, {"b", 15}}),
             {.until = Until::ended, .capacity = Slots{.cpus = {}, .memory = Bytes{100}, .gpus = {}}});
  (void)it.begin();
  (void)it.started("d1");
  (void)it.started("d2");
  run_out_of_memory(it, "a");
  EXPECT_EQ(it.state("a"), TrialState::ready) << "50 are free when d2 is over";
  run_out_of_memory(it, "b");
  run_out_of_memory(it, "b");
  EXPECT_EQ(it.held().memory, Bytes{100}) << "40 and not 60 for b";
  (void)it.started("b");
  (void)it.ended("b", 0);
  (void)it.ended("d2", 143);
  EXPECT_EQ(it.held().memory, Bytes{80});
}

TEST(Retries, MemoryDoesNotGrowIntoTheMemoryOfTrialsThatMayStay) {
  Planned it(growing("loader a<-loader", {{"loader", 10}, {"a", 80}}),
             {.until = Until::ended, .capacity = Slots{.cpus = {}, .memory = Bytes{160}, .gpus = {}}});
  (void)it.begin();
  (void)it.started("loader");
  run_out_of_memory(it, "a");
  EXPECT_EQ(it.held().memory, Bytes{160});
}

// Returns the memory that w requests after it ran out of memory, when the other trials have been started.
std::int64_t grown(const std::string& text, const std::map<std::string, std::int64_t>& memory, Until until) {
  Experiment experiment = growing(text, memory);
  std::vector<std::string> others;
  for (Trial& trial : experiment.trials) {
    trial.retries.grow_memory = 100;
    if (trial.name != "w") others.push_back(trial.name);
  }
  Planned it(std::move(experiment), {.starts_in_flight_max = 100,
                                     .until = until,
                                     .capacity = Slots{.cpus = {}, .memory = Bytes{100}, .gpus = {}}});
  (void)it.begin();
  for (const std::string& name : others)
    if (it.state(name) == TrialState::starting) (void)it.started(name);
  run_out_of_memory(it, "w");
  return it.fact("w").slots.memory.count;
}

// z does not run yet.
TEST(Retries, MemoryGrowsUpToTheMemoryBesideTheTrialsCompany) {
  const std::map<std::string, std::int64_t> memory{{"a", 20}, {"b", 15}, {"w", 10},
                                                   {"x", 1},  {"y", 0},  {"z", 5}};
  EXPECT_EQ(grown("!a !b<-a w<-b y !z<-y:succeeded x<-z", memory, Until::started), 60)
      << "no service is stopped";
  EXPECT_EQ(grown("!a !b<-a w<-b y !z<-y:succeeded x", memory, Until::ended), 60)
      << "z stands as long as the run";
  EXPECT_EQ(grown("!a !b<-a w<-b y !z<-y:succeeded x<-z", memory, Until::ended), 65)
      << "z is stopped some time";
  EXPECT_EQ(grown("!a !b y !z<-y:succeeded x !w", memory, Until::ended), 60)
      << "a service, beside the others";
  EXPECT_EQ(grown("a w<-a x<-a:succeeded", memory, Until::ended), 100) << "a ends some time";
}

// Each trial could get more memory when the other is over, and one of the services is about to be retried.
TEST(Retries, MemoryIsLeftForAServiceThatDoesNotRunYet) {
  Planned it(
      growing("!d1 !d2 !d3 a<-d1 b<-d2,d3", {{"d1", 30}, {"d2", 20}, {"d3", 10}, {"a", 28}, {"b", 12}}),
      {.until = Until::ended, .capacity = Slots{.cpus = {}, .memory = Bytes{100}, .gpus = {}}});
  (void)it.begin();
  for (const char* service : {"d1", "d2", "d3"}) (void)it.started(service);
  run_out_of_memory(it, "a");
  run_out_of_memory(it, "b");
  (void)it.started("b");
  (void)it.ended("d3", 1);
  (void)it.out_of_memory("b");
  EXPECT_EQ(it.collected("d3"), "start d3#2 | d3 starting");
  EXPECT_EQ(it.collected("b"), "start b#3 | b starting");
  EXPECT_EQ(it.fact("b").slots.memory, Bytes{40}) << "not 48";
}

TEST(Retries, MemoryGrowsUpToTheMemoryBesideOtherRuns) {
  for (const auto& [text, left] : {std::pair("w", 50), std::pair("!z w", 45)}) {
    Planned it(growing(text, {{"w", 30}, {"z", 5}}),
               {.until = Until::ended, .capacity = Slots{.cpus = {}, .memory = Bytes{100}, .gpus = {}}});
    (void)it.begin();
    Observation other = it.observation("w", Phase::running);
    other.key.run = RunId("other");
    other.id = "x";
    other.slots.memory = Bytes{50};
    (void)it.seen(other);
    run_out_of_memory(it, "w");
    EXPECT_EQ(it.fact("w").slots.memory, Bytes{left}) << text;
  }
}

}  // namespace
}  // namespace combu::test
