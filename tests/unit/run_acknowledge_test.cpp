// drive() tells the engine which results are stored: after the fact is committed and the log is stored.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "record_folder.hpp"
#include "unit/run_drive.hpp"

namespace combu {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

// An engine that keeps the results of attempts until acknowledge().
class Keeping final : public test::Hooked {
 public:
  using Hooked::Hooked;
  StartResult start(const combu::Run& run, const Trial& trial, int attempt, std::stop_token stop) override {
    StartResult result = Hooked::start(run, trial, attempt, stop);
    if (after_start) after_start();
    return result;
  }
  std::vector<Observation> list(const Selector& selector, ListDetail detail, std::stop_token stop) override {
    std::vector<Observation> all = Hooked::list(selector, detail, stop);
    for (Observation& seen : all) mark(seen);
    return all;
  }
  void watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
             std::stop_token stop) override {
    engine_.watch(
        selector,
        [&](Change change) {
          if (auto* seen = std::get_if<Observation>(&change)) mark(*seen);
          on_change(change);
        },
        stop);
  }
  void acknowledge(const std::vector<Key>& keys) override {
    for (const Key& key : keys) {
      if (on_acknowledge) on_acknowledge(key);
      acknowledged.push_back(key.trial + "#" + std::to_string(key.attempt));
    }
  }

  std::function<void()> after_start;
  std::function<void(const Key&)> on_acknowledge;
  std::string start_error;                // of each ended attempt
  std::vector<std::string> acknowledged;  // drive() calls acknowledge() only from its own thread

 private:
  void mark(Observation& seen) const {
    seen.is_unacknowledged = seen.phase == Phase::ended;
    if (seen.is_unacknowledged) seen.placement.start_error = start_error;
  }
};

// Notes the facts that are committed.
class Committed final : public test::Recorder {
 public:
  void commit() override { committed = facts.size(); }
  std::size_t committed = 0;
};

class AcknowledgeTest : public test::DriveTest {
 protected:
  Outcome drive_keeping(const PlannerOptions& options) {
    Telemetry telemetry(folder_.path(), run_.id);
    return drive_keeping(options, &telemetry);
  }
  Outcome drive_keeping(const PlannerOptions& options, Telemetry* telemetry) {
    return combu::drive(run_, test::plan(run_.experiment), options,
                        {.engine = keeping_,
                         .clock = real_clock(),
                         .journal = journal_,
                         .progress = journal_.listener,
                         .stop = stop_.get_token(),
                         .telemetry = telemetry});
  }
  // True if the journal has committed that this trial has ended.
  [[nodiscard]] bool has_committed_end(const std::string& name) const {
    for (std::size_t i = 0; i < journal_.committed; ++i) {
      const Fact& fact = journal_.facts[i];
      if (run_.experiment.trials[fact.trial].name == name && is_over(fact.state)) return true;
    }
    return false;
  }

  combu::Run run_ = test::run("a b c");
  test::Folder folder_{"run_acknowledge_test"};
  Keeping keeping_{*simulated_};
  Committed journal_;
};

TEST_F(AcknowledgeTest, EachAttemptIsAcknowledgedOnceAfterItsEndIsCommitted) {
  keeping_.on_acknowledge = [&](const Key& key) { EXPECT_TRUE(has_committed_end(key.trial)) << key.trial; };
  (void)drive_keeping({.until = Until::ended});
  EXPECT_THAT(keeping_.acknowledged, UnorderedElementsAre("a#1", "b#1", "c#1"));
}

TEST_F(AcknowledgeTest, TheLogIsStoredBefore) {
  Telemetry telemetry(folder_.path(), run_.id);
  for (Trial& trial : run_.experiment.trials) trial.process.cmd = {"sh", "-c", "echo text"};
  int checked = 0;
  keeping_.on_acknowledge = [&](const Key& key) {
    const auto log = telemetry.log(key.trial, key.attempt);
    EXPECT_TRUE(log && log->complete) << key.trial;
    ++checked;
  };
  (void)drive_keeping({.until = Until::ended}, &telemetry);
  EXPECT_EQ(checked, 3);
}

// `combu run` without `--wait` does not store the logs of trials that end while it starts others.
class UnwaitedTest : public AcknowledgeTest, public testing::WithParamInterface<bool> {};

TEST_P(UnwaitedTest, AnAttemptWhoseLogTheRunDoesNotStoreIsNotAcknowledged) {
  run_ = test::run("first second<-first:succeeded");
  Telemetry telemetry(folder_.path(), run_.id);
  (void)drive_keeping({.until = Until::started}, GetParam() ? &telemetry : nullptr);
  EXPECT_TRUE(has_committed_end("first"));
  EXPECT_THAT(keeping_.acknowledged, IsEmpty());
}
INSTANTIATE_TEST_SUITE_P(StoresOtherLogs, UnwaitedTest, testing::Bool());

TEST_F(AcknowledgeTest, AnAttemptWithoutALogIsAcknowledged) {
  keeping_.start_error = "the image cannot be pulled";
  run_ = test::run("first second<-first:finished");
  (void)drive_keeping({.until = Until::started}, nullptr);
  EXPECT_THAT(keeping_.acknowledged, Contains("first#1"));
}

TEST_F(AcknowledgeTest, AnAttemptWhoseLogCannotBeStoredIsNotAcknowledged) {
  keeping_.before_logs = [&](const Key& key, const LogOptions&, const std::stop_token&) {
    if (key.trial != "b") return;
    stop_.request_stop();  // an interrupted run does not try again
    throw Error(ErrorKind::unavailable, "engine", "cut off");
  };
  (void)drive_keeping({.until = Until::ended});
  EXPECT_TRUE(has_committed_end("b"));
  EXPECT_THAT(keeping_.acknowledged, Not(Contains("b#1")));
}

// The engine may repeat a start whose answer was lost. If the ended attempt were removed before, the repeated
// start would run the attempt again.
TEST_F(AcknowledgeTest, AnAttemptWhoseStartIsInFlightIsNotAcknowledged) {
  run_ = test::run("a");
  std::atomic<bool> has_ended = false;
  std::atomic<bool> is_answered = false;
  keeping_.after_start = [&] {
    has_ended.wait(false);
    is_answered = true;
  };
  journal_.on_snapshot = [&](const Snapshot& snapshot) {
    if (snapshot.count(TrialState::succeeded) == 0) return;
    has_ended = true;
    has_ended.notify_all();
  };
  keeping_.on_acknowledge = [&](const Key&) { EXPECT_TRUE(is_answered); };
  (void)drive_keeping({.until = Until::ended});
  EXPECT_THAT(keeping_.acknowledged, ElementsAre("a#1"));
}

TEST_F(AcknowledgeTest, EachAttemptOfARetriedTrialIsAcknowledged) {
  run_ = test::run("a");
  run_.experiment.trials[0].process.cmd = {"sh", "-c", "exit 7"};
  run_.experiment.trials[0].retries = {
      .max = 1, .on = std::bitset<k_cause_count>().set(), .pause = Seconds(0)};
  (void)drive_keeping({.until = Until::ended});
  EXPECT_THAT(keeping_.acknowledged, ElementsAre("a#1", "a#2"));
}

TEST_F(AcknowledgeTest, ResultsThatAnEarlierProcessHasRecordedAreAcknowledged) {
  (void)drive_keeping({.until = Until::ended});
  keeping_.acknowledged.clear();
  const RestoredTrial over{.state = TrialState::succeeded, .was_started = true};
  const RestoredTrial runs{.state = TrialState::running, .was_started = true};
  (void)drive_keeping({.until = Until::ended, .restored = {over, runs, over}});
  EXPECT_THAT(keeping_.acknowledged, UnorderedElementsAre("a#1", "b#1", "c#1"));
}

TEST_F(AcknowledgeTest, AnEngineWithoutKeptResultsIsNotTold) {
  class Plain final : public test::Hooked {
   public:
    using Hooked::Hooked;
    void acknowledge(const std::vector<Key>& keys) override {
      all.insert(all.end(), keys.begin(), keys.end());
    }
    std::vector<Key> all;
  } plain(*simulated_);
  (void)drive_on(plain, run_, {.until = Until::ended});
  EXPECT_THAT(plain.all, IsEmpty());
}

}  // namespace
}  // namespace combu
