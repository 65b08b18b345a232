// drive() on an engine that refuses, is lost, or was unavailable for a while.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "unit/run_drive.hpp"

namespace combu {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Records the order of facts, commits and snapshots.
class Order final : public Journal, public ProgressListener {
 public:
  void fact(const Fact& /*fact*/) override { calls += 'f'; }
  void commit() override { calls += 'c'; }
  void snapshot(const Snapshot& /*snapshot*/) override { calls += 's'; }
  std::string calls;
};

class FailingEngineTest : public test::DriveTest {
 protected:
  test::Hooked hooked_{*simulated_};
};

TEST_F(FailingEngineTest, ARefusedStartFailsOnlyItsTrial) {
  hooked_.before_start = [](const Trial& trial, const std::stop_token&) {
    if (trial.name == "bad") throw Error(ErrorKind::refused, trial.name, "no");
  };
  const Outcome outcome = drive_on(hooked_, test::run("good bad"), {.until = Until::ended});
  EXPECT_EQ(outcome.last.count(TrialState::succeeded), 1U);
  ASSERT_EQ(outcome.unsuccessful.size(), 1U);
  EXPECT_EQ(outcome.unsuccessful[0].cause, Cause::start);
  EXPECT_EQ(outcome.last.started, 1U);
  EXPECT_THAT(recorder_.started_trials, ElementsAre(0));
  ASSERT_EQ(recorder_.failures.size(), 1U);
  EXPECT_THAT(recorder_.failures[0].second, IsEmpty());
}

TEST_F(FailingEngineTest, ALostEngineEndsTheRunAlthoughAStartHangs) {
  hooked_.before_start = [](const Trial& trial, const std::stop_token& stop) {
    if (trial.name == "lost") throw Error(ErrorKind::unavailable, "engine", "gone");
    real_clock().wait(Seconds(600), stop);
    throw Error(ErrorKind::cancelled, trial.name, "cancelled");
  };
  try {
    (void)drive_on(hooked_, test::run("hangs lost"), {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unavailable);
    EXPECT_EQ(error.message(), "gone");
  }
}

TEST_F(FailingEngineTest, FactsAreCommittedAndShownWhenTheEngineIsLost) {
  hooked_.before_start = [](const Trial&, const std::stop_token&) {
    throw Error(ErrorKind::unavailable, "engine", "gone");
  };
  Order order;
  const combu::Run run = test::run("a");
  EXPECT_THROW(
      (void)combu::drive(run, test::plan(run.experiment), {},
                         {.engine = hooked_, .clock = real_clock(), .journal = order, .progress = order}),
      Error);
  EXPECT_TRUE(order.calls.ends_with("cs")) << order.calls;
}

TEST_F(FailingEngineTest, AnUnknownExceptionEndsTheRunAsAnError) {
  combu::Run run = test::run("a");
  run.experiment.trials[0].process.cmd = {"sleep",
                                          // Otherwise the run could end before the engine is listed.
                                          "1000000"};
  hooked_.before_list = [](const Selector&, ListDetail) { throw std::runtime_error("odd"); };
  try {
    (void)drive_on(hooked_, run, {.until = Until::ended});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::corrupt);
    EXPECT_EQ(error.message(), "odd");
  }
}

TEST_F(FailingEngineTest, AnEngineThatIsLostDuringAStopEndsTheRun) {
  combu::Run run = test::run("a");
  run.experiment.trials[0].process.cmd = {"sleep", "1000000"};
  run.experiment.trials[0].timeout = Seconds(0.02);
  hooked_.before_stop = [](const Key&) { throw Error(ErrorKind::unavailable, "engine", "gone"); };
  EXPECT_THROW((void)drive_on(hooked_, run, {.until = Until::ended}), Error);
}

TEST_F(FailingEngineTest, ARefusedStopEndsOnlyItsTrial) {
  combu::Run run = test::run("a");
  run.experiment.trials[0].process.cmd = {"sleep", "1000000"};
  run.experiment.trials[0].timeout = Seconds(0.02);
  hooked_.before_stop = [](const Key& key) { throw Error(ErrorKind::refused, key.trial, "no"); };
  const Outcome outcome = drive_on(hooked_, run, {.until = Until::ended});
  EXPECT_EQ(outcome.unsuccessful.at(0).cause, Cause::timeout);
}

// Listing too often would slow down the engine.
TEST_F(FailingEngineTest, TheRunIsListedOnceForEachConnection) {
  std::string names;
  for (int i = 0; i < 30; ++i) names += " t" + std::to_string(i);
  int lists = 0;
  hooked_.before_list = [&](const Selector&, ListDetail) { ++lists; };
  (void)drive_on(hooked_, test::run(names), {.until = Until::ended});
  EXPECT_EQ(lists, 1);
}

// Breaks the first stream of events when the trial runs, and stops the trial during the break.
class Away final : public test::PassingEngine {
 public:
  using PassingEngine::PassingEngine;
  Facts facts(std::stop_token stop) override {
    Facts facts = engine_.facts(stop);
    facts.began_at = began_at;
    return facts;
  }
  StartResult start(const combu::Run& run, const Trial& trial, int attempt, std::stop_token stop) override {
    auto seen = engine_.start(run, trial, attempt, stop);
    if (attempt == 1) {
      started = true;
      started.notify_all();
    }
    return seen;
  }
  void watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
             std::stop_token stop) override {
    if (++streams > 1) return engine_.watch(selector, on_change, stop);
    on_change(Watching{});
    started.wait(false);
    engine_.stop({.run = *selector.run, .trial = "t", .attempt = 1}, std::nullopt, {});
    if (restarts) began_at = Instant(std::chrono::hours(1));
    throw Error(ErrorKind::unavailable, "engine", "the stream was cut");
  }
  bool restarts = false;
  std::optional<Instant> began_at = Instant{};
  std::atomic<bool> started = false;
  int streams = 0;
};

class AwayTest : public test::DriveTest {
 protected:
  Outcome drive_away() {
    combu::Run run = test::run("t");
    run.experiment.trials[0].process.cmd = {"sh", "-c", "sleep 200; exit 0"};
    run.experiment.trials[0].retries = {.max = 1, .pause = Seconds(0)};
    run.experiment.trials[0].retries.on.set(static_cast<std::size_t>(Cause::host_lost));
    const auto retried = with_retry(away_, {.pause = Seconds(0.01), .give_up = Seconds(20)}, real_clock());
    return drive_on(*retried, run, {.until = Until::ended});
  }
  Away away_{*simulated_};
};

TEST_F(AwayTest, AnEngineThatRestartedHasLostItsAttempts) {
  away_.restarts = true;
  EXPECT_EQ(drive_away().last.count(TrialState::succeeded), 1U);
}

TEST_F(AwayTest, AnEngineWithUnknownUptimeMayHaveLostItsAttempts) {
  away_.began_at.reset();
  EXPECT_EQ(drive_away().last.count(TrialState::succeeded), 1U);
}

}  // namespace
}  // namespace combu
