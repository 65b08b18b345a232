// drive() stores the logs of attempts that have ended.

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "record_folder.hpp"
#include "unit/run_drive.hpp"

namespace combu {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class LogsTest : public test::DriveTest {
 protected:
  LogsTest() { run_.experiment.trials[0].process.cmd = {"sh", "-c", "echo text"}; }
  Outcome drive_keeping(OutputStore* output_store = nullptr) {
    return drive_on(hooked_, run_, {.until = Until::ended}, output_store, &telemetry_);
  }
  [[nodiscard]] bool is_complete(int attempt = 1) {
    const auto log = telemetry_.log("t", attempt);
    return log && log->complete;
  }

  combu::Run run_ = test::run("t");
  test::Folder folder_{"run_logs_test"};
  Telemetry telemetry_{folder_.path(), run_.id};
  test::Hooked hooked_{*simulated_};
  std::atomic<int> ended_ = 0;
};

TEST_F(LogsTest, TheLogOfASuccessfulAttemptIsStored) {
  (void)drive_keeping();
  EXPECT_TRUE(is_complete());
  EXPECT_THAT(recorder_.remarks, IsEmpty());
}

// Such a run does not wait for its end: a later command ingests the log.
TEST_F(LogsTest, ASuccessBeforeTheRunIsUpLeavesItsLogToALaterCommand) {
  run_ = test::run("t u");
  hooked_.before_start = [&](const Trial& trial, const std::stop_token&) {
    while (trial.name == "u" && ended_ == 0) ended_.wait(0);
  };
  recorder_.on_snapshot = [&](const Snapshot& snapshot) {
    if (snapshot.count(TrialState::succeeded) == 0) return;
    ended_ = 1;
    ended_.notify_all();
  };
  (void)drive_on(hooked_, run_, {}, nullptr, &telemetry_);
  EXPECT_FALSE(telemetry_.log("t", 1));
}

TEST_F(LogsTest, TheLogOfAFailureBeforeTheRunIsUpIsStored) {
  run_ = test::run("t u");
  run_.experiment.trials[0].process.cmd = {"sh", "-c", "echo text; exit 7"};
  hooked_.before_start = [&](const Trial& trial, const std::stop_token&) {
    while (trial.name == "u" && ended_ == 0) ended_.wait(0);
  };
  recorder_.on_snapshot = [&](const Snapshot& snapshot) {
    if (snapshot.count(TrialState::failed) == 0) return;
    ended_ = 1;
    ended_.notify_all();
  };
  (void)drive_on(hooked_, run_, {}, nullptr, &telemetry_);
  EXPECT_TRUE(is_complete());
}

TEST_F(LogsTest, AFailureWithAnEmptyLogIsReportedDuringTheRun) {
  run_ = test::run("bad long");
  run_.experiment.trials[0].process.cmd = {"sh", "-c", "exit 7"};
  run_.experiment.trials[1].process.cmd = {"sleep", "1000000"};
  recorder_.on_snapshot = [&](const Snapshot& snapshot) {
    if (snapshot.count(TrialState::running) == 1 && !recorder_.failures.empty())
      simulated_->stop({.run = run_.id, .trial = "long", .attempt = 1}, std::nullopt, {});
  };
  (void)drive_on(hooked_, run_, {.until = Until::ended});
  ASSERT_EQ(recorder_.failures.size(), 2U);
  EXPECT_EQ(recorder_.failures[0].first.trial, 0U);
}

TEST_F(LogsTest, AFailedReadingOfALogIsRepeated) {
  int calls = 0;
  hooked_.before_logs = [&](const Key&, const LogOptions&, const std::stop_token&) {
    if (++calls == 1) throw Error(ErrorKind::unavailable, "engine", "cut off");
  };
  (void)drive_keeping();
  EXPECT_TRUE(is_complete());
  EXPECT_EQ(calls, 2);
  EXPECT_THAT(recorder_.remarks, IsEmpty());
}

TEST_F(LogsTest, AnInterruptedRunDoesNotRepeatAFailedReading) {
  int calls = 0;
  hooked_.before_logs = [&](const Key&, const LogOptions&, const std::stop_token&) {
    ++calls;
    stop_.request_stop();
    throw Error(ErrorKind::unavailable, "engine", "cut off");
  };
  (void)drive_keeping();
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(recorder_.remarks,
              ElementsAre("t: storing the trial's log failed: engine: cut off; `combu logs` can "
                          "read the log while the container exists"));
}

TEST_F(LogsTest, TheLogOfAContainerThatIsGoneIsNotReadAgain) {
  int calls = 0;
  hooked_.before_logs = [&](const Key&, const LogOptions&, const std::stop_token&) {
    ++calls;
    throw Error(ErrorKind::not_found, "t", "gone");
  };
  (void)drive_keeping();
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(recorder_.remarks, IsEmpty());
}

// Only a failed attempt waits for its log, because the next attempt replaces its container.
TEST_F(LogsTest, ASuccessWithOutputsDoesNotWaitForItsLog) {
  run_.experiment.trials[0].outputs = {Output{.path = "/out", .required = false}};
  test::Places places;
  hooked_.before_logs = [&](const Key&, const LogOptions&, const std::stop_token&) { ended_.wait(0); };
  recorder_.on_snapshot = [&](const Snapshot& snapshot) {
    if (snapshot.count(TrialState::succeeded) == 0) return;
    ended_ = 1;
    ended_.notify_all();
  };
  (void)drive_keeping(&places);
  EXPECT_TRUE(is_complete());
}

TEST_F(LogsTest, RemarksNameTheTrial) {
  run_.experiment.trials[0].log_size_max = Bytes{10};
  run_.experiment.trials[0].process.cmd = {"sh", "-c", "echo 0123456789; echo 0123456789; echo 0123456789"};
  (void)drive_keeping();
  EXPECT_THAT(recorder_.remarks,
              ElementsAre(StartsWith("t: the log exceeds logs.max_size: combu keeps only the last 10 B")));
}

TEST_F(LogsTest, NoLogIsReadIfNoneIsStored) {
  run_.experiment.trials[0].log_size_max = Bytes{0};
  int calls = 0;
  hooked_.before_logs = [&](const Key&, const LogOptions&, const std::stop_token&) { ++calls; };
  const Outcome outcome = drive_keeping();
  EXPECT_EQ(outcome.last.count(TrialState::succeeded), 1U);
  EXPECT_EQ(calls, 0);
  EXPECT_THAT(recorder_.remarks, IsEmpty());
  EXPECT_FALSE(telemetry_.log("t", 1).has_value());
}

TEST_F(LogsTest, MetricsAreStoredWithoutTheLog) {
  run_.experiment.trials[0].log_size_max = Bytes{0};
  run_.experiment.trials[0].metrics = Metrics{.json = true};
  run_.experiment.trials[0].process.cmd = {"sh", "-c", "echo '{\"loss\": 2}'"};
  (void)drive_keeping();
  EXPECT_THAT(recorder_.remarks, IsEmpty());
  EXPECT_TRUE(is_complete());
  EXPECT_EQ(telemetry_.metric_points("t", 1).at("loss"), 1U);
  telemetry_.read_log("t", 1, std::nullopt, [](const LogPiece&) {
    ADD_FAILURE() << "the log is stored";
    return true;
  });
}

TEST_F(LogsTest, AFailingDatabaseAndItsRecoveryAreReported) {
  SQLite::Database database(folder_.path() + "/telemetry/" + run_.id.text() + ".sqlite",
                            SQLite::OPEN_READWRITE);
  database.exec("ALTER TABLE packs RENAME TO away");
  int calls = 0;
  hooked_.before_logs = [&](const Key&, const LogOptions&, const std::stop_token&) { ++calls; };
  recorder_.on_remark = [&](const std::string& line) {
    if (line.starts_with("storing logs and metrics failed: "))
      database.exec("ALTER TABLE away RENAME TO packs");
  };
  (void)drive_keeping();
  ASSERT_EQ(recorder_.remarks.size(), 2U);
  EXPECT_THAT(recorder_.remarks[0],
              AllOf(StartsWith("storing logs and metrics failed: "), EndsWith("; combu tries again")));
  EXPECT_EQ(recorder_.remarks[1], "storing logs and metrics works again");
  EXPECT_TRUE(is_complete());
}

TEST_F(LogsTest, TheLastLinesOfALongLogAreShown) {
  std::string command;
  for (int line = 1; line <= 7; ++line) command += "echo " + std::to_string(line) + "; ";
  run_.experiment.trials[0].process.cmd = {"sh", "-c",
                                           command + "echo " + std::string(600, 'x') + "; exit 7"};
  (void)drive_keeping();
  ASSERT_EQ(recorder_.failures.size(), 1U);
  EXPECT_THAT(recorder_.failures[0].second, ElementsAre("4", "5", "6", "7", std::string(500, 'x')));
}

// Twenty failures are as many as a person reads.
TEST_F(LogsTest, LogsOfTheFirstFailuresAreShown) {
  std::string names;
  for (int i = 0; i < 12; ++i) names += " t" + std::to_string(i);
  run_ = test::run(names);
  for (Trial& trial : run_.experiment.trials) {
    trial.process.cmd = {"sh", "-c", "echo text; exit 7"};
    trial.retries = {.max = 1, .pause = Seconds(0)};
    trial.retries.on.set();
  }
  (void)drive_on(*simulated_, run_, {.until = Until::ended});
  EXPECT_EQ(recorder_.failures.size(), 24U);
  EXPECT_EQ(std::ranges::count_if(recorder_.failures, [](const auto& it) { return !it.second.empty(); }), 20);
}

}  // namespace
}  // namespace combu
