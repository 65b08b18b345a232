// drive() and await_end() with real threads, on a simulated engine that is much faster than a real one.

#include "combu/run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "unit/run_drive.hpp"

namespace combu {
namespace {

using test::DriveTest;
using test::Gauge;
using test::k_speed;
using test::Places;

TEST_F(DriveTest, StartsAllTrialsAndLeavesThemRunning) {
  combu::Run run = test::run("a b<-a c<-b");
  for (Trial& trial : run.experiment.trials) trial.process.cmd = {"sleep", "100000"};
  const Outcome outcome = drive(run, {});
  EXPECT_EQ(outcome.last.started, 3U);
  EXPECT_EQ(outcome.running.size(), 3U);
  EXPECT_TRUE(outcome.unsuccessful.empty());
  EXPECT_EQ(simulated_->list({.run = run.id}, ListDetail::consistent, {}).size(), 3U);
}

TEST_F(DriveTest, WaitsForTheEndAndReportsFailures) {
  combu::Run run = test::run("good bad after<-bad:succeeded");
  run.experiment.trials[1].process.cmd = {"sh", "-c", "sleep 1; exit 7"};
  const Outcome outcome = drive(run, {.until = Until::ended});
  ASSERT_EQ(outcome.unsuccessful.size(), 2U);
  EXPECT_EQ(outcome.unsuccessful[0].exit_code, 7);
  EXPECT_EQ(outcome.unsuccessful[1].state, TrialState::blocked);
  EXPECT_EQ(outcome.unsuccessful[1].root, 1U);
  EXPECT_TRUE(outcome.running.empty());
  EXPECT_EQ(outcome.last.count(TrialState::succeeded), 1U);
  ASSERT_FALSE(recorder_.snapshots.empty());
  EXPECT_EQ(recorder_.snapshots.back().count(TrialState::blocked), 1U);
}

// Each failure is reported once, after its fact, with the last lines of its log.
TEST_F(DriveTest, ReportsAFailureWithTheEndOfItsLog) {
  combu::Run run = test::run("good bad silent twice after<-bad:succeeded");
  run.experiment.trials[1].process.cmd = {"sh", "-c", "echo one; echo two; exit 7"};
  run.experiment.trials[2].process.cmd = {"sh", "-c", "exit 8"};
  run.experiment.trials[3].process.cmd = {"sh", "-c", "echo again; exit 9"};
  run.experiment.trials[3].retries = {.max = 1, .pause = Seconds(0)};
  run.experiment.trials[3].retries.on.set();
  (void)drive(run, {.until = Until::ended});
  std::vector<std::string> seen;
  for (const auto& [fact, tail] : recorder_.failures) {
    std::string text = run.experiment.trials[fact.trial].name + " " + std::string(to_string(fact.state));
    for (const std::string& line : tail) text += " | " + line;
    seen.push_back(text);
  }
  EXPECT_THAT(seen, testing::UnorderedElementsAre("bad failed | one | two", "silent failed",
                                                  "twice retrying | again", "twice failed | again"));
}

TEST_F(DriveTest, EstimatesTheTimeLeftFromTrialsThatHaveEnded) {
  std::string names = "bad";
  for (int i = 0; i < 20; ++i) names += " p" + std::to_string(i);
  for (int i = 0; i < 50; ++i) names += " b" + std::to_string(i) + "<-bad:succeeded";
  combu::Run run = test::run(names);
  for (Trial& trial : run.experiment.trials) trial.process.cmd = {"sleep", "20"};
  run.experiment.trials[0].process.cmd = {"sh", "-c", "exit 1"};
  run.experiment.parallel_max = 2;
  (void)drive(run, {.until = Until::ended});
  std::size_t reported = 0;
  for (const Snapshot& snapshot : recorder_.snapshots) {
    if (!snapshot.left) continue;
    ++reported;
    const auto over =
        static_cast<double>(snapshot.count(TrialState::succeeded) + snapshot.count(TrialState::failed));
    EXPECT_GT(snapshot.left->count(), 0);
    // The estimate assumes that every trial takes as long as the ended ones. A single trial is not faster.
    EXPECT_LE(snapshot.left->count(), snapshot.elapsed.count() * std::max(1.0, (21 - over) / over));
  }
  EXPECT_GT(reported, 2U);
}

TEST_F(DriveTest, ShowsTheRunningTrialsOnceTheyAreFew) {
  combu::Run run = test::run("server a b c d e f<-server:started");
  for (Trial& trial : run.experiment.trials) trial.process.cmd = {"sleep", "40"};
  run.experiment.trials[0].service = true;
  run.experiment.trials[0].process.cmd = {"sleep", "1000000"};
  run.experiment.trials[1].process.cmd = {"sleep", "1000000"};
  bool are_few = false;
  recorder_.on_snapshot = [&](const Snapshot& snapshot) {
    EXPECT_LE(snapshot.running.size(), Snapshot::k_running_max);
    for (const RunningTrial& one : snapshot.running) {
      EXPECT_NE(one.trial, 0U) << "a service is not waited for";
      EXPECT_GE(one.age.count(), 0);
    }
    // Only the long trial is left.
    if (snapshot.count(TrialState::succeeded) < 5 || snapshot.running.size() != 1) return;
    EXPECT_EQ(snapshot.running[0].trial, 1U);
    if (snapshot.running[0].age < Seconds(0.1) || std::exchange(are_few, true)) return;
    simulated_->stop({.run = run.id, .trial = "a", .attempt = 1}, std::nullopt, {});
  };
  (void)drive(run, {.until = Until::ended});
  EXPECT_TRUE(are_few);
}

TEST_F(DriveTest, TheElapsedTimeCountsFromTheBeginningOfTheRun) {
  combu::Run run = test::run("a");
  run.began_at = real_clock().now() - std::chrono::hours(1);
  const Outcome outcome = drive(run, {.until = Until::ended});
  EXPECT_GE(outcome.last.elapsed, Seconds(3600));
  EXPECT_LT(outcome.last.elapsed, Seconds(3700));
}

TEST_F(DriveTest, KeepsStartsInFlightWithinTheLimit) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += " t" + std::to_string(i);
  (void)drive(test::run(text), {.starts_in_flight_max = 5});
  EXPECT_LE(engine_.most_under_way, 5);
  EXPECT_GE(engine_.most_under_way, 2);
}

// The usage of the long trial is polled one second after its start, and again. Then the trial is stopped.
TEST_F(DriveTest, ReportsTheUsageOfAnAttempt) {
  combu::Run run = test::run("long short");
  run.experiment.trials[0].process.cmd = {"sleep", "1000000"};
  Gauge asked(*simulated_);
  bool was_asked = false;
  asked.on_usage = [&](const std::string& id) {
    if (std::exchange(was_asked, true))
      simulated_->stop({.run = run.id, .trial = "long", .attempt = 1}, std::nullopt, {});
    return simulated_->usage(id, {});
  };
  const Plan plan = test::plan(run.experiment);
  (void)combu::drive(
      run, plan, {.until = Until::ended},
      {.engine = asked, .clock = real_clock(), .journal = recorder_, .progress = recorder_.listener});
  const auto over = [&](TrialIndex trial) {
    return *std::ranges::find_if(
        recorder_.facts, [&](const Fact& fact) { return fact.trial == trial && is_over(fact.state); });
  };
  EXPECT_FALSE(over(1).usage);
  ASSERT_TRUE(over(0).usage);
  EXPECT_GT(over(0).usage->cpu.count(), 0);
  EXPECT_GT(over(0).usage->memory.count, 0);
}

// Delays the reading of a log, and records if the next attempt has started meanwhile.
class SlowLogs : public test::PassingEngine {
 public:
  using PassingEngine::PassingEngine;
  StartResult start(const combu::Run& run, const Trial& trial, int attempt, std::stop_token stop) override {
    {
      const std::scoped_lock lock(mutex_);
      started_ = attempt;
    }
    changed_.notify_all();
    return engine_.start(run, trial, attempt, stop);
  }
  void logs(const Key& key, const LogOptions& options, const OnLogPiece& on_piece,
            std::stop_token stop) override {
    if (options.timed) {
      std::unique_lock lock(mutex_);
      overtaken = overtaken || changed_.wait_for(lock, std::chrono::milliseconds(500),
                                                 [&] { return started_ > key.attempt; });
    }
    engine_.logs(key, options, on_piece, stop);
  }

  bool overtaken = false;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int started_ = 0;
};

TEST_F(DriveTest, TheNextAttemptWaitsUntilTheLastLogIsStored) {
  combu::Run run = test::run("t");
  run.experiment.trials[0].process.cmd = {"sh", "-c", "echo first; exit 7"};
  run.experiment.trials[0].retries = {.max = 1, .pause = Seconds(0)};
  run.experiment.trials[0].retries.on.set();
  SlowLogs slow(*simulated_);
  const std::string folder = testing::TempDir() + "run_test." + std::to_string(getpid());
  {
    Telemetry telemetry(folder, run.id);
    const Outcome outcome = combu::drive(run, test::plan(run.experiment), {.until = Until::ended},
                                         {.engine = slow,
                                          .clock = real_clock(),
                                          .journal = recorder_,
                                          .progress = recorder_.listener,
                                          .telemetry = &telemetry});
    EXPECT_EQ(outcome.unsuccessful.at(0).attempt, 2);
    EXPECT_FALSE(slow.overtaken);
    for (const int attempt : {1, 2}) EXPECT_TRUE(telemetry.log("t", attempt)->complete) << attempt;
  }
  std::filesystem::remove_all(folder);
}

// Stops the trial when its log is read for the second time while it runs. The result of the first poll is
// known by then.
class EndsWhenRead : public test::PassingEngine {
 public:
  using PassingEngine::PassingEngine;
  void logs(const Key& key, const LogOptions& options, const OnLogPiece& on_piece,
            std::stop_token stop) override {
    engine_.logs(key, options, on_piece, stop);
    if (engine_.list({.run = key.run}, ListDetail::consistent, stop).at(0).phase != Phase::running) return;
    if (++readings == 2) engine_.stop(key, std::nullopt, stop);
  }
  std::atomic<int> readings = 0;
};

TEST_F(DriveTest, ATrialOfAnEarlierProcessIsPolledWhileItRuns) {
  combu::Run run = test::run("t");
  run.experiment.trials[0].process.cmd = {"sh", "-c", "echo first; sleep 4000"};
  (void)drive(run, {});
  PlannerOptions again{.until = Until::ended};
  again.restored = {RestoredTrial{.state = TrialState::running, .was_started = true}};
  EndsWhenRead engine(*simulated_);
  const std::string folder = testing::TempDir() + "run_test." + std::to_string(getpid());
  {
    Telemetry telemetry(folder, run.id);
    recorder_.facts.clear();
    (void)combu::drive(run, test::plan(run.experiment), again,
                       {.engine = engine,
                        .clock = real_clock(),
                        .journal = recorder_,
                        .progress = recorder_.listener,
                        .telemetry = &telemetry});
    EXPECT_EQ(engine.readings, 2);
    EXPECT_TRUE(telemetry.log("t", 1)->complete);
  }
  ASSERT_FALSE(recorder_.facts.empty());
  EXPECT_TRUE(recorder_.facts.back().usage) << "what it uses is seen, too";
  std::filesystem::remove_all(folder);
}

// A log that grows by megabytes between two polls. Stops the trial at the third poll.
class FastLogs : public test::PassingEngine {
 public:
  using PassingEngine::PassingEngine;
  void logs(const Key& key, const LogOptions& options, const OnLogPiece& on_piece,
            std::stop_token stop) override {
    if (engine_.list({.run = key.run}, ListDetail::consistent, stop).at(0).phase == Phase::running) {
      const Instant now = real_clock().now();
      for (const auto ago : {std::chrono::milliseconds(150), std::chrono::milliseconds(0)})
        written_.push_back(now - ago);
      if (++looks == 3) engine_.stop(key, std::nullopt, stop);
    }
    const std::string line = std::string(1U << 20U, 'x') + "\n";
    for (const Instant at : written_)
      if (!options.since || at >= *options.since)
        on_piece({.stream = LogStream::out, .text = line, .at = at});
  }
  std::atomic<int> looks = 0;

 private:
  std::vector<Instant> written_;
};

TEST_F(DriveTest, ALogThatGrowsFastIsReadWithoutAGap) {
  combu::Run run = test::run("t");
  run.experiment.trials[0].process.cmd = {"sleep", "20000"};
  FastLogs engine(*simulated_);
  const std::string folder = testing::TempDir() + "run_test." + std::to_string(getpid());
  {
    Telemetry telemetry(folder, run.id);
    (void)combu::drive(run, test::plan(run.experiment), {.until = Until::ended},
                       {.engine = engine,
                        .clock = real_clock(),
                        .journal = recorder_,
                        .progress = recorder_.listener,
                        .telemetry = &telemetry});
    EXPECT_EQ(engine.looks, 3);
    EXPECT_EQ(telemetry.log("t", 1)->gaps, 0U);
  }
  std::filesystem::remove_all(folder);
}

// A trial that runs until it is stopped; its output may be missing.
class PartialCollectionDriveTest : public DriveTest {
 protected:
  PartialCollectionDriveTest() {
    run_.experiment.trials[0].process.cmd = {"sleep", "1000000"};
    run_.experiment.trials[0].outputs = {Output{.path = "/out", .required = false}};
    run_.experiment.collect.every = Seconds(0.02);
  }
  // `on_copy_out` receives the number of the call, from 1.
  void drive_on(const std::function<bool(int, const std::stop_token&)>& on_copy_out) {
    int calls = 0;
    engine_.on_copy_out = [&](const std::stop_token& stop) { return on_copy_out(++calls, stop); };
    const Plan plan = test::plan(run_.experiment);
    (void)combu::drive(run_, plan, {.until = Until::ended},
                       {.engine = engine_,
                        .clock = real_clock(),
                        .journal = recorder_,
                        .progress = recorder_.listener,
                        .output_store = &places_});
  }
  void end_trial() { simulated_->stop({.run = run_.id, .trial = "t", .attempt = 1}, std::nullopt, {}); }

  combu::Run run_ = test::run("t");
  Places places_;
};

TEST_F(PartialCollectionDriveTest, CollectsOutputsUntilTheAttemptEnds) {
  drive_on([&](int call, const std::stop_token&) {
    if (call == 3) end_trial();
    return true;
  });
  const std::vector<std::string> all = places_.all();
  ASSERT_GE(all.size(), 4U);
  EXPECT_EQ(all[0], "t@so-far");
  EXPECT_EQ(all[1], "t@so-far");
  EXPECT_EQ(all[all.size() - 2], "t");
  EXPECT_EQ(all.back(), "no t@so-far");
  EXPECT_EQ(std::ranges::count(all, "t"), 1);
  EXPECT_EQ(recorder_.collected_outputs.size(), 1U) << "of the end's alone";
  EXPECT_THAT(recorder_.remarks, testing::IsEmpty());
}

// A hanging collection would block the end of the container for ever.
TEST_F(PartialCollectionDriveTest, ACollectionUnderWayIsCancelledAtTheEnd) {
  drive_on([&](int call, const std::stop_token& stop) {
    if (call > 1) return true;
    end_trial();
    real_clock().wait(Seconds(600), stop);
    throw Error(ErrorKind::cancelled, "engine", "cancelled");
  });
  EXPECT_THAT(places_.all(), testing::ElementsAre("t", "no t@so-far"));
  EXPECT_THAT(recorder_.remarks, testing::IsEmpty());
}

TEST_F(PartialCollectionDriveTest, AFailureIsReportedOnceAndEndsNothing) {
  drive_on([&](int call, const std::stop_token&) -> bool {
    if (call > 3) return true;
    if (call == 3) end_trial();
    throw Error(ErrorKind::unavailable, "engine", "cut off");
  });
  EXPECT_THAT(
      recorder_.remarks,
      testing::ElementsAre(
          "t: collecting partial outputs failed: engine: cut off; combu tries again at the next interval"));
  EXPECT_THAT(places_.all(), testing::ElementsAre("t", "no t@so-far"));
}

TEST_F(DriveTest, LeavesWhenAskedAndContinuesWithTheSameSettings) {
  combu::Run run = test::run("a b c d");
  for (Trial& trial : run.experiment.trials) trial.process.cmd = {"sleep", "100000"};
  Steering steering({.starts_in_flight_max = 1});
  engine_.on_start = [&](const Trial& trial) {
    if (trial.name == "b") (void)steering.leave();
  };
  const Plan plan = test::plan(run.experiment);
  const Outcome outcome = combu::drive(run, plan, {.starts_in_flight_max = 1},
                                       {.engine = engine_,
                                        .clock = real_clock(),
                                        .journal = recorder_,
                                        .progress = recorder_.listener,
                                        .steering = &steering});
  EXPECT_TRUE(outcome.left);
  EXPECT_FALSE(outcome.interrupted);
  EXPECT_EQ(outcome.running.size(), 2U);
  // Leaving must not be shown as a pause.
  for (const Snapshot& snapshot : recorder_.snapshots) EXPECT_FALSE(snapshot.settings.paused);
  EXPECT_THAT(
      recorder_.remarks,
      testing::ElementsAre("`combu apply` is changing the run: no trial starts until `apply` has finished"));
  engine_.on_start = {};
  PlannerOptions again{.starts_in_flight_max = 1};
  again.restored.resize(4);
  for (TrialIndex trial : outcome.running) {
    again.restored[trial].state = TrialState::running;
    again.restored[trial].was_started = true;
  }
  const Outcome second = combu::drive(run, plan, again,
                                      {.engine = engine_,
                                       .clock = real_clock(),
                                       .journal = recorder_,
                                       .progress = recorder_.listener,
                                       .steering = &steering});
  EXPECT_FALSE(second.left);
  EXPECT_FALSE(second.last.settings.paused);
  EXPECT_EQ(second.running.size(), 4U);
  EXPECT_EQ(simulated_->list({.run = run.id}, ListDetail::consistent, {}).size(), 4U);
}

TEST_F(DriveTest, SurvivesAnEngineThatDiesBetweenTwoStarts) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += " t" + std::to_string(i);
  combu::Run run = test::run(text);
  for (Trial& trial : run.experiment.trials) trial.process.cmd = {"sleep", "100000"};
  World dying({.faults = {.crash = 0.02, .crash_for = Seconds(5), .live_restore = true}});
  const auto simulated = open_simulated(dying, k_speed);
  const auto retried = with_retry(*simulated, {.pause = Seconds(0.01), .give_up = Seconds(20)}, real_clock());
  const Plan plan = test::plan(run.experiment);
  const Outcome outcome = combu::drive(
      run, plan, {},
      {.engine = *retried, .clock = real_clock(), .journal = recorder_, .progress = recorder_.listener});
  EXPECT_TRUE(outcome.unsuccessful.empty());
  EXPECT_EQ(outcome.running.size(), 40U);
  EXPECT_EQ(retried->list({}, ListDetail::consistent, {}).size(), 40U);
}

TEST_F(DriveTest, AnEngineThatStaysUnavailableEndsTheRun) {
  World dead({.faults = {.crash = 1, .crash_for = Seconds(1e6)}});
  const auto simulated = open_simulated(dead, k_speed);
  const auto retried =
      with_retry(*simulated, {.pause = Seconds(0.01), .give_up = Seconds(0.05)}, real_clock());
  const combu::Run run = test::run("a b c");
  const Plan plan = test::plan(run.experiment);
  try {
    (void)combu::drive(
        run, plan, {},
        {.engine = *retried, .clock = real_clock(), .journal = recorder_, .progress = recorder_.listener});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unavailable);
  }
}

TEST_F(DriveTest, AStopLetsStartsInFlightFinishAndStartsNoMore) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += " t" + std::to_string(i);
  std::stop_source stop;
  std::atomic<int> begun{0};
  engine_.on_start = [&](const Trial&) {
    if (++begun == 10) stop.request_stop();
  };
  const combu::Run run = test::run(text);
  const Outcome outcome = drive(run, {.starts_in_flight_max = 4}, stop.get_token());
  EXPECT_TRUE(outcome.interrupted);
  EXPECT_GE(outcome.last.started, 10U);
  EXPECT_LT(outcome.last.started, 200U);
  EXPECT_EQ(outcome.last.count(TrialState::starting), 0U);
  EXPECT_EQ(simulated_->list({.run = run.id}, ListDetail::consistent, {}).size(), outcome.last.started);
}

TEST_F(DriveTest, FactsOfATrialComeInOrder) {
  (void)drive(test::run("a b<-a:succeeded"), {.until = Until::ended});
  std::map<TrialIndex, std::vector<TrialState>> states;
  for (const Fact& fact : recorder_.facts) states[fact.trial].push_back(fact.state);
  const std::vector<TrialState> expected{TrialState::starting, TrialState::running, TrialState::succeeded};
  EXPECT_EQ(states[0], expected);
  EXPECT_EQ(states[1], expected);
}

TEST_F(DriveTest, ABrokenStreamDoesNotCountAsALostHost) {
  combu::Run run = test::run("a b c");
  for (Trial& trial : run.experiment.trials) {
    trial.process.cmd = {"sh", "-c", "sleep 20; exit 255"};
    trial.retries = {.max = 1, .pause = Seconds(0.01)};
    trial.retries.on.set().reset(static_cast<std::size_t>(Cause::stopped));
  }
  engine_.cuts_watch = true;
  engine_.began_at = Instant{};
  const Outcome outcome = drive(run, {.until = Until::ended});
  EXPECT_GT(engine_.cuts, 3);
  ASSERT_EQ(outcome.unsuccessful.size(), 3U);
  for (const Fact& fact : outcome.unsuccessful) {
    EXPECT_EQ(fact.cause, Cause::error);
    EXPECT_EQ(fact.attempt, 2);
  }
}

TEST_F(DriveTest, AnUnansweredStartHoldsItsPlaceOnlyUntilItsDeadline) {
  combu::Run run = test::run("a b");
  run.experiment.trials[0].start_deadline = Seconds(0.2);
  run.experiment.parallel_max = 1;
  engine_.hanging = "a";
  const Outcome outcome = drive(run, {.until = Until::ended, .answer_after = Seconds(0.1)});
  ASSERT_EQ(outcome.unsuccessful.size(), 1U);
  EXPECT_EQ(outcome.unsuccessful[0].cause, Cause::start_deadline);
  EXPECT_EQ(outcome.last.count(TrialState::succeeded), 1U);
}

TEST_F(DriveTest, AwaitEndReportsEachTrialOnce) {
  combu::Run run = test::run("a b !service");
  run.experiment.trials[0].process.cmd = {"sh", "-c", "sleep 20; exit 3"};
  run.experiment.trials[2].process.cmd = {"sleep", "100000"};
  (void)drive(run, {});
  std::map<std::string, int> reported;
  const auto last =
      await_end(engine_, {.run = run.id}, [&](const Observation& it) { ++reported[it.key.trial]; }, {});
  EXPECT_THAT(reported, testing::ElementsAre(testing::Pair("a", 1), testing::Pair("b", 1)));
  ASSERT_EQ(last.size(), 2U);
  EXPECT_EQ(last[0].exit_code, 3);
}

TEST_F(DriveTest, AwaitEndReportsARemoval) {
  combu::Run run = test::run("a b");
  run.experiment.trials[0].process.cmd = {"sleep", "10"};
  run.experiment.trials[1].process.cmd = {"sleep", "100000"};
  (void)drive(run, {});
  const auto remove_b = [&](const Observation& over) {
    if (over.key.trial == "a") (void)simulated_->release({.run = run.id, .trials = {"b"}}, {}, {});
  };
  const auto last = await_end(engine_, {.run = run.id}, remove_b, {});
  ASSERT_EQ(last.size(), 2U);
  EXPECT_NE(last[1].phase, Phase::running);
  EXPECT_NE(last[1].exit_code, 0);
}

TEST_F(DriveTest, CanBeSteeredFromAnotherThread) {
  combu::Run run = test::run("a b c d");
  for (Trial& trial : run.experiment.trials) trial.process.cmd = {"sleep", "100000"};
  Steering steering({.starts_in_flight_max = 1});
  // This change is requested before the run begins, so the run begins paused.
  Settings then;
  EXPECT_TRUE(steering.post({.paused = true}, [&](const Settings& settings) { then = settings; }));
  EXPECT_TRUE(then.paused);
  EXPECT_EQ(then.starts_in_flight_max, 1U);
  recorder_.on_snapshot = [&](const Snapshot& snapshot) {
    if (!snapshot.settings.paused) return;
    EXPECT_EQ(snapshot.started, 0U);
    EXPECT_EQ(snapshot.count(TrialState::starting), 0U);
    const std::jthread another([&] {
      EXPECT_TRUE(steering.post({.parallel_max = 9, .starts_in_flight_max = 4, .paused = false},
                                [&](const Settings& settings) { then = settings; }));
    });
  };
  const Plan plan = test::plan(run.experiment);
  const Outcome outcome = combu::drive(run, plan, {.starts_in_flight_max = 1},
                                       {.engine = engine_,
                                        .clock = real_clock(),
                                        .journal = recorder_,
                                        .progress = recorder_.listener,
                                        .steering = &steering});
  EXPECT_EQ(outcome.last.started, 4U);
  EXPECT_FALSE(then.paused);
  EXPECT_EQ(then.parallel_max, 9U);
  EXPECT_EQ(outcome.last.settings.starts_in_flight_max, 4U);
  EXPECT_FALSE(steering.post({}, [](const Settings&) {}));
}

TEST_F(DriveTest, AStopTokenEndsAwaitEnd) {
  combu::Run run = test::run("a");
  run.experiment.trials[0].process.cmd = {"sleep", "100000"};
  (void)drive(run, {});
  std::stop_source stop;
  std::jthread stopper([&] { stop.request_stop(); });
  try {
    (void)await_end(
        engine_, {.run = run.id}, [](const Observation&) {}, stop.get_token());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::cancelled);
  }
}

}  // namespace
}  // namespace combu
