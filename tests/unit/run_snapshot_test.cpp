// The snapshots of drive().

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "unit/run_drive.hpp"

namespace combu {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class SnapshotTest : public test::DriveTest {
 protected:
  // Sets the flag when a snapshot meets the condition. A hook may wait for the flag.
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

TEST_F(SnapshotTest, ShowsTrialsThatAreBeingStarted) {
  combu::Run run = test::run("a b");
  for (Trial& trial : run.experiment.trials) trial.process.cmd = {"sleep", "1000000"};
  hooked_.before_start = [&](const Trial&, const std::stop_token&) { shown_.wait(false); };
  signal_when([](const Snapshot& snapshot) { return snapshot.starting == std::vector<TrialIndex>{0, 1}; });
  const Outcome outcome = drive_on(hooked_, run, {});
  EXPECT_TRUE(shown_);
  EXPECT_THAT(outcome.last.starting, IsEmpty());
  EXPECT_THAT(outcome.running, ElementsAre(0, 1));
}

TEST_F(SnapshotTest, ShowsWhyTrialsArePending) {
  const auto placing = open_simulated({.places = true, .speed = test::k_speed});
  combu::Run run = test::run("a b c");
  for (Trial& trial : run.experiment.trials) trial.process.cmd = {"sleep", "1000000"};
  for (const TrialIndex large : {1, 2}) run.experiment.trials[large].slots.cpus = parse_cpus("100000");
  recorder_.on_snapshot = [&](const Snapshot& snapshot) {
    if (snapshot.count(TrialState::running) == 1 && snapshot.pending.size() == 1) stop_.request_stop();
  };
  (void)drive_on(*placing, run, {.until = Until::ended});
  const Snapshot& last = recorder_.snapshots.back();
  ASSERT_EQ(last.pending.size(), 1U);
  EXPECT_EQ(last.pending[0].reason, "no host has enough free CPUs and memory");
  EXPECT_EQ(last.pending[0].first, 1U);
  EXPECT_EQ(last.pending[0].count, 2U);
}

TEST_F(SnapshotTest, ARetriedTrialCountsAsStartedOnce) {
  combu::Run run = test::run("t");
  run.experiment.trials[0].process.cmd = {"sh", "-c", "exit 7"};
  run.experiment.trials[0].retries = {.max = 2, .pause = Seconds(0)};
  run.experiment.trials[0].retries.on.set();
  EXPECT_EQ(drive_on(hooked_, run, {.until = Until::ended}).last.started, 1U);
}

TEST_F(SnapshotTest, TheOldestRunningTrialComesFirst) {
  combu::Run run = test::run("a^1 b^2 c d");
  for (Trial& trial : run.experiment.trials) trial.process.cmd = {"sleep", "1000000"};
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

TEST_F(SnapshotTest, ComesAtMostTenTimesASecond) {
  std::string names;
  for (int i = 0; i < 60; ++i) names += " t" + std::to_string(i);
  const Outcome outcome = drive_on(hooked_, test::run(names), {.until = Until::ended});
  EXPECT_LE(static_cast<double>(recorder_.snapshots.size()), outcome.last.elapsed.count() / 0.1 + 2);
}

TEST_F(SnapshotTest, ComesOnceASecondWhileNothingHappens) {
  combu::Run run = test::run("t");
  run.experiment.trials[0].process.cmd = {"sleep", "180"};
  const Outcome outcome = drive_on(hooked_, run, {.until = Until::ended});
  EXPECT_LE(static_cast<double>(recorder_.snapshots.size()), outcome.last.elapsed.count() + 5);
}

// The slots of a start may differ from the slots of the trial.
TEST_F(SnapshotTest, AStartReceivesTheIdsOfItsGpus) {
  World world({.gpus = 2});
  const auto simulated = open_simulated(world, test::k_speed);
  test::Hooked hooked(*simulated);
  combu::Run run = test::run("a");
  run.experiment.trials[0].gpus = GpuRequest{.count = 1};
  std::vector<std::string> gpus;
  hooked.before_start = [&](const Trial& trial, const std::stop_token&) { gpus = trial.slots.gpus; };
  (void)drive_on(hooked, run,
                 {.until = Until::ended, .capacity = Slots{.gpus = {"0", "1"}}, .gpus = world.gpus()});
  EXPECT_THAT(gpus, ElementsAre("0"));
}

// A pause does not count as work, and during a pause there is no estimate.
TEST_F(SnapshotTest, TheTimeLeftIgnoresPauses) {
  constexpr std::size_t k_trials = 12;
  constexpr double k_duration = 10;  // in simulated seconds
  std::string names;
  for (std::size_t i = 0; i < k_trials; ++i) names += " t" + std::to_string(i);
  combu::Run run = test::run(names);
  for (Trial& trial : run.experiment.trials) trial.process.cmd = {"sleep", "10"};
  Steering steering({.parallel_max = 1});
  const auto pause = [&](bool paused) {
    EXPECT_TRUE(steering.post({.paused = paused}, [](const Settings&) {}));
  };
  std::size_t paused = 0;
  std::size_t estimates = 0;
  bool is_paused_again = false;
  Seconds paused_until{0};
  recorder_.on_snapshot = [&](const Snapshot& snapshot) {
    const std::size_t over = snapshot.count(TrialState::succeeded);
    if (snapshot.settings.paused) {
      EXPECT_FALSE(snapshot.left);
      if (over == 0) paused_until = snapshot.elapsed;
      if (++paused == 2 || over > 0) pause(false);
    } else if (snapshot.left && over < k_trials && !is_paused_again) {
      ++estimates;
      const auto rest = static_cast<double>(k_trials - over);
      EXPECT_GE(snapshot.left->count(), (rest - 1) * k_duration / test::k_speed * 0.8);
      const Seconds worked = snapshot.elapsed - paused_until;
      EXPECT_LE(snapshot.left->count(), 2 * worked.count() * std::max(1.0, rest / static_cast<double>(over)));
      if (over >= 5 && !std::exchange(is_paused_again, true)) pause(true);
    }
  };
  pause(true);
  (void)combu::drive(run, test::plan(run.experiment), {.until = Until::ended},
                     {.engine = hooked_,
                      .clock = real_clock(),
                      .journal = recorder_,
                      .progress = recorder_.listener,
                      .steering = &steering});
  EXPECT_GT(estimates, 0U);
}

TEST_F(SnapshotTest, TheTimeLeftIsKnownForTheLastTrial) {
  combu::Run run = test::run("a b c d<-a:succeeded,b:succeeded,c:succeeded");
  for (Trial& trial : run.experiment.trials) trial.process.cmd = {"sleep", "120"};
  bool is_known = false;
  recorder_.on_snapshot = [&](const Snapshot& snapshot) {
    is_known = is_known ||
               (snapshot.count(TrialState::succeeded) == 3 && snapshot.running.size() == 1 && snapshot.left);
  };
  (void)drive_on(hooked_, run, {.until = Until::ended});
  EXPECT_TRUE(is_known);
}

// The number of threads in the contract of drive().
TEST_F(SnapshotTest, AtMostTwoLogsAreReadAtATime) {
  std::string names;
  for (int i = 0; i < 8; ++i) names += " t" + std::to_string(i);
  combu::Run run = test::run(names);
  for (Trial& trial : run.experiment.trials) trial.process.cmd = {"sh", "-c", "exit 7"};
  std::atomic<int> under_way = 0;
  std::atomic<int> most = 0;
  hooked_.before_logs = [&](const Key&, const LogOptions&, const std::stop_token& stop) {
    const int now = ++under_way;
    if (now > most) most = now;
    real_clock().wait(Seconds(0.02), stop);
    --under_way;
  };
  (void)drive_on(hooked_, run, {.until = Until::ended});
  EXPECT_LE(most, 2);
}

}  // namespace
}  // namespace combu
