// A run is changed and left while it is driven.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>

#include "unit/run_drive.hpp"

namespace combu {
namespace {

class SteeringTest : public test::DriveTest {
 protected:
  SteeringTest() {
    for (Trial& trial : run_.experiment.trials) trial.process.cmd = {"sleep", "1000000"};
  }
  Outcome drive_steered(const combu::Run& run, Until until = Until::started) {
    return combu::drive(run, test::plan(run.experiment), {.starts_in_flight_max = 1, .until = until},
                        {.engine = hooked_,
                         .clock = real_clock(),
                         .journal = recorder_,
                         .progress = recorder_.listener,
                         .steering = &steering_});
  }

  combu::Run run_ = test::run("a b c d e f");
  test::Hooked hooked_{*simulated_};
  Steering steering_{{.starts_in_flight_max = 1}};
};

TEST_F(SteeringTest, ARaisedLimitAllowsMoreStartsInFlight) {
  std::mutex mutex;
  std::condition_variable changed;
  int under_way = 0;
  bool were_three = false;
  hooked_.before_start = [&](const Trial&, const std::stop_token&) {
    std::unique_lock lock(mutex);
    if (++under_way == 1 && !were_three) {
      EXPECT_TRUE(steering_.post({.starts_in_flight_max = 3}, [](const Settings&) {}));
    }
    EXPECT_LE(under_way, 3);
    were_three = were_three || under_way == 3;
    changed.notify_all();
    changed.wait(lock, [&] { return were_three; });
    --under_way;
  };
  EXPECT_EQ(drive_steered(run_).last.started, 6U);
}

TEST_F(SteeringTest, ARunThatIsDoneCannotBeLeft) {
  const combu::Run run = test::run("a");
  hooked_.before_start = [&](const Trial&, const std::stop_token&) { EXPECT_TRUE(steering_.leave()); };
  const Outcome outcome = drive_steered(run);
  EXPECT_FALSE(outcome.left);
  EXPECT_FALSE(steering_.leave());
  EXPECT_FALSE(steering_.post({}, [](const Settings&) {}));
}

TEST_F(SteeringTest, ARunThatWasLeftKeepsItsSettings) {
  hooked_.before_start = [&](const Trial&, const std::stop_token&) {
    EXPECT_TRUE(steering_.post({.parallel_max = 50}, [](const Settings&) {}));
    EXPECT_TRUE(steering_.leave());
  };
  EXPECT_TRUE(drive_steered(run_).left);
  hooked_.before_start = {};
  Settings answered;
  EXPECT_TRUE(steering_.post({.paused = false}, [&](const Settings& settings) { answered = settings; }));
  EXPECT_EQ(answered.parallel_max, 50U);
  const Outcome outcome = drive_steered(test::run("x"));
  EXPECT_EQ(outcome.last.settings.parallel_max, 50U);
  EXPECT_EQ(outcome.last.started, 1U);
}

TEST_F(SteeringTest, ARunThatIsDrivenAgainAtOnceKeepsItsSettings) {
  hooked_.before_start = [&](const Trial&, const std::stop_token&) {
    EXPECT_TRUE(steering_.post({.parallel_max = 50}, [](const Settings&) {}));
    EXPECT_TRUE(steering_.leave());
  };
  EXPECT_TRUE(drive_steered(run_).left);
  hooked_.before_start = {};
  EXPECT_EQ(drive_steered(test::run("x")).last.settings.parallel_max, 50U);
}

TEST_F(SteeringTest, ASnapshotNamesTheCommandThatInterrupts) {
  bool is_posted = false;
  hooked_.before_start = [&](const Trial&, const std::stop_token&) {
    if (std::exchange(is_posted, true)) return;
    EXPECT_TRUE(steering_.post({.interrupter = "combu kill"}, [](const Settings&) {}));
    EXPECT_TRUE(steering_.post({.parallel_max = 50}, [](const Settings&) {}));
  };
  EXPECT_EQ(drive_steered(run_).last.interrupter, "combu kill");
}

TEST_F(SteeringTest, RemarksEndAfterTwenty) {
  hooked_.before_start = [&](const Trial&, const std::stop_token&) {
    for (int i = 0; i < 25; ++i) EXPECT_TRUE(steering_.leave());
  };
  (void)drive_steered(run_);
  ASSERT_EQ(recorder_.remarks.size(), 21U);
  EXPECT_EQ(recorder_.remarks.back(), "further notes of this kind are not shown");
  EXPECT_EQ(std::ranges::count(recorder_.remarks, recorder_.remarks.front()), 20);
}

// Notes about a lack of room have a limit of their own, so that they do not hide other notes.
TEST_F(SteeringTest, RemarksAboutALackOfRoomEndAfterFive) {
  class Full final : public test::PassingEngine {
   public:
    using PassingEngine::PassingEngine;
    StartResult start(const combu::Run& run, const Trial& trial, int attempt, std::stop_token stop) override {
      if (++starts_ <= 25)
        return NoRoom{.reason = "quota " + std::to_string(starts_), .retry_after = Seconds(0.001)};
      return engine_.start(run, trial, attempt, stop);
    }

   private:
    int starts_ = 0;
  } full(*simulated_);
  (void)drive_on(full, test::run("t"), {.until = Until::ended});
  ASSERT_EQ(recorder_.remarks.size(), 5U);
  EXPECT_EQ(recorder_.remarks.back(),
            "the engine has no room for more trials now: quota 5; combu tries again");
}

TEST_F(SteeringTest, AFailureIsReportedIfTheRunIsLeftBeforeItsLogIsRead) {
  combu::Run run = test::run("t");
  run.experiment.trials[0].process.cmd = {"sh", "-c", "exit 7"};
  hooked_.before_logs = [&](const Key&, const LogOptions&, const std::stop_token& stop) {
    EXPECT_TRUE(steering_.leave());
    real_clock().wait(Seconds(600), stop);
    throw Error(ErrorKind::cancelled, "t", "cancelled");
  };
  EXPECT_TRUE(drive_steered(run, Until::ended).left);
  ASSERT_EQ(recorder_.failures.size(), 1U);
  EXPECT_EQ(recorder_.failures[0].first.trial, 0U);
}

TEST_F(SteeringTest, ARunThatBeginsPausedCanBeResumed) {
  EXPECT_TRUE(steering_.post({.paused = true}, [](const Settings&) {}));
  recorder_.on_snapshot = [&](const Snapshot& snapshot) {
    if (snapshot.started == 0 && snapshot.settings.paused) {
      EXPECT_TRUE(steering_.post({.paused = false}, [](const Settings&) {}));
    }
  };
  EXPECT_EQ(drive_steered(run_).last.started, 6U);
}

}  // namespace
}  // namespace combu
