// Tests that read logs: which logs are passed on, and from which position.

#include <gmock/gmock.h>

#include "app/logs.hpp"
#include "app_record_fixture.hpp"
#include "error_of.hpp"

namespace combu::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class AppLogs : public RecordedRunTest {
 protected:
  class Sink : public LogSink {
   public:
    Sink(AppLogs& test, std::string name) : test_(test), name_(std::move(name)) {}
    bool put(LogStream /*stream*/, std::string_view piece) override {
      test_.printed.push_back(name_ + ": " + std::string(piece));
      return !test_.reader_has_gone;
    }
    void flush() override { ++test_.flushed; }
    bool note(const std::string& text) override {
      test_.notes.push_back(name_ + ": " + text);
      return true;
    }

   private:
    AppLogs& test_;
    std::string name_;
  };

  LogsOptions options(const std::string& run, std::vector<std::string> trials = {}) {
    LogsOptions options;
    options.selection = {.experiment = {}, .run = run, .trials = std::move(trials)};
    options.open_sink = [this](const std::string& trial, LogsOf of) {
      return std::make_unique<Sink>(*this, of == LogsOf::one_trial ? trial : trial + " of several");
    };
    return options;
  }

  std::vector<std::string> printed;
  std::vector<std::string> notes;
  int flushed = 0;
  bool reader_has_gone = false;
};

TEST_F(AppLogs, CompletelyStoredLogsNeedNoEngine) {
  record_run("run1", {"a", "b"});
  keep_log("run1", "a", "one\n");
  keep_log("run1", "b", "two\n");
  engine.is_away = true;
  EXPECT_EQ(logs(session, {}, options("run1")), Result::succeeded);
  EXPECT_THAT(printed, ElementsAre("a of several: one\n", "b of several: two\n"));
  EXPECT_EQ(flushed, 2);
}

TEST_F(AppLogs, TheLogOfASingleTrialHasItsOwnForm) {
  record_run("run1", {"a", "b"});
  keep_log("run1", "a", "one\n");
  keep_log("run1", "b", "two\n");
  EXPECT_EQ(logs(session, {}, options("run1", {"b"})), Result::succeeded);
  EXPECT_EQ(logs(session, {}, options("run1", {"[ac]"})), Result::succeeded);
  EXPECT_THAT(printed, ElementsAre("b: two\n", "a: one\n"));
}

TEST_F(AppLogs, LogsThatAreNotStoredComeFromTheEngine) {
  record_run("run1", {"a", "b"});
  keep_log("run1", "a", "kept\n");
  engine.add(key("run1", "a"), "of the engine\n");
  engine.add(key("run1", "b"), "of the engine\n");
  EXPECT_EQ(logs(session, {}, options("run1")), Result::succeeded);
  EXPECT_THAT(printed, ElementsAre("a of several: kept\n", "b of several: of the engine\n"));
}

TEST_F(AppLogs, AnUnreachableEngineIsAnErrorAfterTheStoredLogs) {
  record_run("run1", {"a", "b"});
  keep_log("run1", "a", "kept\n");
  engine.is_away = true;
  const auto error = error_of([&] { (void)logs(session, {}, options("run1")); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::unavailable);
  EXPECT_THAT(printed, ElementsAre("a of several: kept\n"));
}

TEST_F(AppLogs, ReadingEndsWhenTheReaderCloses) {
  record_run("run1", {"a", "b"});
  keep_log("run1", "a", "one\n");
  keep_log("run1", "b", "two\n");
  reader_has_gone = true;
  EXPECT_EQ(logs(session, {}, options("run1")), Result::succeeded);
  EXPECT_THAT(printed, ElementsAre("a of several: one\n"));
}

TEST_F(AppLogs, AnUnknownNameIsAnErrorAfterTheOtherLogs) {
  record_run("run1", {"a", "b"});
  keep_log("run1", "a", "one\n");
  const auto error = error_of([&] { (void)logs(session, {}, options("run1", {"a", "x"})); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::not_found);
  EXPECT_THAT(error->what(), HasSubstr("x"));
  EXPECT_THAT(printed, ElementsAre("a: one\n"));
}

TEST_F(AppLogs, AnAttemptNeedsATrial) {
  LogsOptions wanted = options("run1");
  wanted.attempt = 2;
  const auto error = error_of([&] { (void)logs(session, {}, wanted); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::invalid);
  EXPECT_EQ(error->subject(), "--attempt");
}

TEST_F(AppLogs, FollowingEndsWhenAllTrialsAreOver) {
  engine.add(key("run1", "a"), "one\n");
  engine.add(key("run1", "b"), "two\n");
  LogsOptions wanted = options("run1");
  wanted.wanted.follow = true;
  EXPECT_EQ(logs(session, {}, wanted), Result::succeeded);
  EXPECT_THAT(printed, testing::UnorderedElementsAre("a of several: one\n", "b of several: two\n"));
}

TEST_F(AppLogs, FollowingReportsEachMissingPartOnce) {
  for (const char* name : {"a", "b"}) {
    engine.add(key("run1", name), "text\n");
    engine.listed.back().phase = Phase::running;
  }
  engine.gaps.insert(key("run1", "a"));
  {
    Telemetry telemetry(state(), RunId("run1"));
    (void)telemetry.append("b", 1, std::nullopt, {.is_after_gap = true, .complete = true}, Bytes{1 << 20});
  }
  // The second listing shows that "a" has ended, and that the container of "b" was removed.
  engine.after_list = [&] {
    engine.listed.resize(1);
    engine.listed[0].phase = Phase::ended;
  };
  LogsOptions wanted = options("run1");
  wanted.wanted.follow = true;
  EXPECT_EQ(logs(session, {}, wanted), Result::succeeded);
  EXPECT_THAT(notes, testing::UnorderedElementsAre(HasSubstr("a of several: "), HasSubstr("b of several: ")));
}

}  // namespace
}  // namespace combu::test
