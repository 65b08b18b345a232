// What drive() shows of a run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "unit/run_drive.hpp"

namespace combu {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class SnapshotTest : public test::DriveTest {
 protected:
  // Sets the flag when a snapshot is as wanted: a hook may wait for it.
  void signal_when(const std::function<bool(const Snapshot&)>& is_wanted) {
    recorder_.on_snapshot = [this, is_wanted](const Snapshot& snapshot) {
      if (!is_wanted(snapshot)) return;
      shown_ = true;
      shown_.notify_all();
    };
  }

  test::Hooked hooked_{*simulated_};
  test::Places places_;
  std::atomic<bool> shown_ = false;
};

TEST_F(SnapshotTest, NamesTrialsWhileTheyAreStarted) {
  combu::Run run = test::run("a b");
  for (Trial& trial : run.experiment.trials) trial.cmd = {"sleep", "1000000"};
  hooked_.before_start = [&](const Trial&, const std::stop_token&) { shown_.wait(false); };
  signal_when([](const Snapshot& snapshot) { return snapshot.starting == std::vector<TrialIndex>{0, 1}; });
  const Outcome outcome = drive_on(hooked_, run, {});
  EXPECT_TRUE(shown_);
  EXPECT_THAT(outcome.last.starting, IsEmpty());
  EXPECT_THAT(outcome.running, ElementsAre(0, 1));
}

TEST_F(SnapshotTest, ATrialThatIsRetriedHasStartedOnce) {
  combu::Run run = test::run("t");
  run.experiment.trials[0].cmd = {"sh", "-c", "exit 7"};
  run.experiment.trials[0].retries = {.max = 2, .pause = Seconds(0)};
  run.experiment.trials[0].retries.on.set();
  EXPECT_EQ(drive_on(hooked_, run, {.until = Until::ended}).last.started, 1U);
}

TEST_F(SnapshotTest, TheOldestOfTheRunningTrialsComesFirst) {
  combu::Run run = test::run("a^1 b^2 c d");
  for (Trial& trial : run.experiment.trials) trial.cmd = {"sleep", "1000000"};
  recorder_.on_snapshot = [&](const Snapshot& snapshot) {
    if (snapshot.running.size() == 4) stop_.request_stop();
  };
  (void)drive_on(hooked_, run, {.starts_in_flight_max = 1, .until = Until::ended});
  std::vector<TrialIndex> order;
  for (const RunningTrial& one : recorder_.snapshots.back().running) order.push_back(one.trial);
  EXPECT_THAT(order, ElementsAre(1, 0, 2, 3));
}

TEST_F(SnapshotTest, ATrialIsNotRunningWhileItsOutputsAreCollected) {
  combu::Run run = test::run("t");
  run.experiment.trials[0].outputs = {Output{.path = "/out", .required = false}};
  hooked_.before_copy_out = [&](const Key&, const std::stop_token&) { shown_.wait(false); };
  signal_when([](const Snapshot& snapshot) {
    const bool is_collecting = snapshot.count(TrialState::collecting) > 0;
    if (is_collecting) {
      EXPECT_THAT(snapshot.running, IsEmpty());
    }
    return is_collecting;
  });
  (void)drive_on(hooked_, run, {.until = Until::ended}, &places_);
  EXPECT_TRUE(shown_);
}

TEST_F(SnapshotTest, ComesTenTimesASecondAtMost) {
  std::string names;
  for (int i = 0; i < 60; ++i) names += " t" + std::to_string(i);
  const Outcome outcome = drive_on(hooked_, test::run(names), {.until = Until::ended});
  EXPECT_LE(static_cast<double>(recorder_.snapshots.size()), outcome.last.elapsed.count() / 0.1 + 2);
}

TEST_F(SnapshotTest, ComesOnceASecondWhileNothingHappens) {
  combu::Run run = test::run("t");
  run.experiment.trials[0].cmd = {"sleep", "180"};
  const Outcome outcome = drive_on(hooked_, run, {.until = Until::ended});
  EXPECT_LE(static_cast<double>(recorder_.snapshots.size()), outcome.last.elapsed.count() + 5);
}

// The slots of a start may be others than the trial's own.
TEST_F(SnapshotTest, AStartGetsItsGpusByName) {
  World world({.gpus = 2});
  const auto simulated = open_simulated(world, test::k_speed);
  test::Hooked hooked(*simulated);
  combu::Run run = test::run("a");
  run.experiment.trials[0].slots.gpus = {""};
  std::vector<std::string> gpus;
  hooked.before_start = [&](const Trial& trial, const std::stop_token&) { gpus = trial.slots.gpus; };
  (void)drive_on(hooked, run,
                 {.until = Until::ended, .capacity = Slots{.gpus = {"0", "1"}}, .gpus = world.gpus()});
  EXPECT_THAT(gpus, ElementsAre("0"));
}

}  // namespace
}  // namespace combu
