// Tests that ingest logs, which outlive their containers. Each log is ingested once.

#include <latch>
#include <thread>

#include "app/run_results.hpp"
#include "app/run_telemetry.hpp"
#include "app_fixture.hpp"

namespace combu::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr const char* k_talk = "sh -c 'echo one; echo two >&2; echo three; sleep 100'";

// An engine whose log calls fail with the given error.
class Mute final : public PassingEngine {
 public:
  using PassingEngine::PassingEngine;
  std::optional<Error> fault;
  void logs(const Key& key, const LogOptions& options, const OnLogPiece& on_piece,
            std::stop_token token) override {
    if (fault) throw Error(*fault);
    PassingEngine::logs(key, options, on_piece, token);
  }
};

class LogsTest : public AppTest {
 protected:
  Uncollected keep(Containers containers = Containers::about_to_go) {
    Uncollected failed;
    with_session([&](Session& session) {
      Record all(state());
      const std::vector<Observation> attempts = simulated->list({}, ListDetail::full, {});
      failed = save_logs(session, all, state(), RunId("r1"), attempts, containers);
    });
    return failed;
  }
  std::string log_of(const std::string& trial, int attempt = 1) {
    std::string text;
    const auto kept = open_telemetry_to_read(RunId("r1"), state());
    if (kept == nullptr) return "nothing is kept";
    kept->read_log(trial, attempt, std::nullopt, [&](const LogPiece& piece) {
      text += piece.text;
      return true;
    });
    return text;
  }
};

TEST_F(LogsTest, ALogIsStoredOnceIfItIsIngestedTwice) {
  EXPECT_EQ(start(file_text(trial_text("talk", k_talk)), new_run("r1")), Result::succeeded);
  pass_an_hour();
  EXPECT_EQ(log_of("talk"), "nothing is kept");
  EXPECT_THAT(keep(), IsEmpty());
  EXPECT_EQ(log_of("talk"), "one\ntwo\nthree\n");
  EXPECT_THAT(keep(), IsEmpty());
  EXPECT_EQ(log_of("talk"), "one\ntwo\nthree\n");
}

TEST_F(LogsTest, TheLogOfARunningTrialIsContinued) {
  EXPECT_EQ(start(file_text(trial_text("talk", "sh -c 'echo one; sleep 1000'")), new_run("r1")),
            Result::succeeded);
  EXPECT_THAT(keep(Containers::stay), IsEmpty());
  EXPECT_EQ(log_of("talk"), "one\n");
  EXPECT_FALSE(open_telemetry_to_read(RunId("r1"), state())->log("talk", 1)->complete);
  stop_container("r1", "talk");
  EXPECT_THAT(keep(Containers::stay), IsEmpty());
  EXPECT_EQ(log_of("talk"), "one\n");
  EXPECT_TRUE(open_telemetry_to_read(RunId("r1"), state())->log("talk", 1)->complete);
}

TEST_F(LogsTest, ALogIsStoredOnceIfTwoProcessesIngestIt) {
  EXPECT_EQ(start(file_text(trial_text("talk", k_talk) + trial_text("more", k_talk)), new_run("r1")),
            Result::succeeded);
  pass_an_hour();
  const std::vector<Observation> attempts = simulated->list({}, ListDetail::full, {});
  std::latch both(2);
  const auto take = [&] {
    Session session(shown, kept_engine, {.address = address}, {});
    Record all(state());
    both.arrive_and_wait();
    EXPECT_THAT(save_logs(session, all, state(), RunId("r1"), attempts, Containers::about_to_go), IsEmpty());
  };
  {
    const std::jthread other(take);
    take();
  }
  EXPECT_EQ(log_of("talk"), "one\ntwo\nthree\n");
  EXPECT_EQ(log_of("more"), "one\ntwo\nthree\n");
}

TEST_F(LogsTest, LogsThatCannotBeReadAreReturned) {
  EXPECT_EQ(start(file_text(trial_text("talk", k_talk) + trial_text("more", k_talk)), new_run("r1")),
            Result::succeeded);
  pass_an_hour();
  Mute mute(kept_engine);
  engine = &mute;
  mute.fault = Error(ErrorKind::unavailable, "talk", "is away");
  const Uncollected failed = keep();
  ASSERT_THAT(failed, SizeIs(2));
  EXPECT_EQ(failed.begin()->second, "the log cannot be stored: talk: is away");
  with_session([&](Session& session) {
    printed.clear();
    note_unsaved_logs(session, {});
    EXPECT_THAT(printed.of("note"), IsEmpty());
    note_unsaved_logs(session, failed);
    EXPECT_THAT(printed.of("note"),
                ElementsAre("more: the log cannot be stored: talk: is away (and 1 more)"));
  });
  mute.fault = Error(ErrorKind::not_found, "talk", "is gone");
  EXPECT_THAT(keep(), IsEmpty()) << "its container is gone, and nothing can be had";
  mute.fault = Error(ErrorKind::cancelled, "talk", "cancelled");
  EXPECT_EQ(in_session([&](Session& session) {
              Record all(state());
              (void)save_logs(session, all, state(), RunId("r1"), simulated->list({}, ListDetail::full, {}),
                              Containers::about_to_go);
              return Result::succeeded;
            }),
            Result::interrupted);
  mute.fault.reset();
  EXPECT_THAT(keep(), IsEmpty());
  EXPECT_EQ(log_of("talk"), "one\ntwo\nthree\n");
}

TEST_F(LogsTest, LogsOfOtherRunsAreNotIngested) {
  EXPECT_EQ(start(file_text(trial_text("talk", k_talk)), new_run("r2")), Result::succeeded);
  pass_an_hour();
  EXPECT_THAT(keep(), IsEmpty());
  EXPECT_FALSE(Telemetry::exists(state(), RunId("r1")));
}

TEST_F(LogsTest, TheLastLineOfALogIsRead) {
  EXPECT_EQ(start(file_text(trial_text("talk", "sh -c 'echo one; echo three'")), waiting_run("r1")),
            Result::succeeded);
  const auto kept = open_telemetry_to_read(RunId("r1"), state());
  ASSERT_TRUE(kept);
  EXPECT_EQ(last_lines_in(kept.get())("talk", 1), "three");
  EXPECT_EQ(last_lines_in(kept.get())("nobody", 1), "");
  EXPECT_FALSE(last_lines_in(nullptr));
}

TEST_F(LogsTest, AFolderThatCannotBeUsedIsAnError) {
  write_file("state/telemetry", "a file");
  write_file("file", "no folder");
  with_session(
      [&](Session& session) { EXPECT_EQ(open_telemetry(session, path("file"), RunId("r1")), nullptr); });
  EXPECT_THAT(printed.of("error"), ElementsAre(HasSubstr("logs and metrics are not stored: ")));
  EXPECT_EQ(open_telemetry_to_read(RunId("r1"), path("file")), nullptr);
}

TEST(KeptLogs, ASkippedTrialHasTheLogOfTheEqualTrial) {
  EXPECT_EQ(telemetry_attempt({.state = TrialState::succeeded, .attempt = 3}), 3);
  EXPECT_EQ(telemetry_attempt({.state = TrialState::skipped, .attempt = 3}), k_adopted);
}

// ---- Results that come from logs

class ResultsTest : public AppTest {
 protected:
  std::vector<Results> read(const std::vector<std::string>& ids, const std::string& where = "") {
    return read_run_results(invocation, {.ids = ids, .where = where}, opener(), shown);
  }
  std::vector<std::vector<std::string>> metrics(const std::string& id = "") {
    const Results results = read({id}).at(0);
    std::vector<std::vector<std::string>> rows;
    for (const ResultRow& row : results.rows) {
      rows.push_back({row.trial.name, std::string(to_string(row.trial.state))});
      for (const combu::TrialMetric& one : row.metrics)
        rows.back().push_back(one.points == 0 ? "-" : std::to_string(static_cast<int>(one.last)));
    }
    return rows;
  }
};

constexpr const char* k_loss = "sh -c 'echo loss=3; sleep 100'";
constexpr const char* k_metrics = R"(metrics: 'loss=(?P<loss>\\d+)')";

TEST_F(ResultsTest, ResultsIncludeLogsThatOnlyTheEngineHas) {
  EXPECT_EQ(start(file_text(trial_text("one", k_loss, k_metrics)), new_run("r1")), Result::succeeded);
  pass_an_hour();
  EXPECT_THAT(metrics(), ElementsAre(ElementsAre("one", "succeeded", "3")));
  // If the results on record are complete, combu opens no session with the engine.
  engine = nullptr;
  EXPECT_THAT(metrics("r1"), ElementsAre(ElementsAre("one", "succeeded", "3")));
}

TEST_F(ResultsTest, ResultsAreIncompleteIfTheEngineIsUnreachable) {
  EXPECT_EQ(start(file_text(trial_text("one", k_loss, k_metrics)), new_run("r1")), Result::succeeded);
  class Away final : public PassingEngine {
   public:
    using PassingEngine::PassingEngine;
    std::vector<Observation> list(const Selector& /*selector*/, ListDetail /*look*/,
                                  std::stop_token /*token*/) override {
      throw Error(ErrorKind::unavailable, "engine", "is away");
    }
  };
  Away away(kept_engine);
  printed.clear();
  engine = &away;
  EXPECT_THAT(metrics(), ElementsAre(ElementsAre("one", "running")));
  EXPECT_THAT(printed.of("note"),
              ElementsAre("the newest logs and metrics of run r1 are missing: engine: is away"));
}

TEST_F(ResultsTest, IfTheRunHasAnOwnerOnlyRunningTrialsAreIngested) {
  EXPECT_EQ(start(file_text(trial_text("one", k_loss, k_metrics) +
                            trial_text("two", "sh -c 'echo loss=4; sleep 100000'", k_metrics)),
                  new_run("r1")),
            Result::succeeded);
  pass_an_hour();
  const combu::Run run{.id = RunId("r1"), .experiment = {.name = "lab"}};
  const RunLock lock(LockScope::run, run, address, caller(), {});
  EXPECT_THAT(metrics(), ElementsAre(ElementsAre("one", "running", "-"), ElementsAre("two", "running", "4")));
}

TEST_F(ResultsTest, ARunThatIsNamedTwiceIsAnError) {
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r1")), Result::succeeded);
  EXPECT_EQ(start(waiting_run("r2")), Result::succeeded);
  EXPECT_THAT(read({"r1", "r2"}), SizeIs(2));
  EXPECT_EQ(read({}).at(0).run.id.text(), "r2");
  const Error error = error_in([&] { (void)read({"r1", "r1"}); });
  EXPECT_EQ(error.subject(), "run r1");
  EXPECT_EQ(error.message(), "is named twice");
}

TEST_F(ResultsTest, AConditionChoosesResults) {
  EXPECT_EQ(start(file_text(trial_text("one", "echo loss=3", k_metrics) +
                            trial_text("two", "echo loss=5", k_metrics)),
                  waiting_run("r1")),
            Result::succeeded);
  EXPECT_THAT(read({"r1"}).at(0).rows, SizeIs(2));
  const Results results = read({"r1"}, "loss>4").at(0);
  ASSERT_THAT(results.rows, SizeIs(1));
  EXPECT_EQ(results.rows[0].trial.name, "two");
  EXPECT_THAT(printed.of("note"), Not(Contains(HasSubstr("--where"))));
  EXPECT_THAT(read({"r1"}, "los>4").at(0).rows, IsEmpty());
  EXPECT_THAT(printed.of("note"), Contains("--where: no trial of run r1 has `los`; did you mean `loss`?"));
  EXPECT_THAT(read({"r1"}, "loss<4").at(0).rows, SizeIs(1));
}

}  // namespace
}  // namespace combu::test
