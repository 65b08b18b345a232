// drive() looks up trials in the cache, and publishes trials that have succeeded.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "record_folder.hpp"
#include "unit/run_drive.hpp"

namespace combu {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

class FakeCacheLookup final : public CacheLookup {
 public:
  std::vector<CacheResult> look_up(const std::vector<TrialIndex>& trials,
                                   const std::stop_token& /*stop*/) override {
    if (on_look_up) on_look_up();
    std::vector<CacheResult> found;
    for (const TrialIndex trial : trials) {
      asked.push_back(trial);
      found.push_back({.trial = trial, .hash = "h"});
      if (trial == known) {
        found.back().run = "run0";
        found.back().name = "other";
      }
    }
    return found;
  }
  void done(TrialIndex trial) override {
    finished.push_back(trial);
    if (on_done) on_done();
  }

  TrialIndex known = 1000;  // this trial has succeeded before
  std::function<void()> on_look_up;
  std::function<void()> on_done;
  std::vector<TrialIndex> asked;     // used by the lookup thread
  std::vector<TrialIndex> finished;  // used by the thread of drive()
};

class CacheLookupTest : public test::DriveTest {
 protected:
  CacheLookupTest() {
    for (Trial& trial : run_.experiment.trials) trial.cache.on = true;
  }
  [[nodiscard]] Outcome drive_with_cache(Telemetry* telemetry = nullptr) {
    return drive_on(*simulated_, run_, {.until = Until::ended, .looks_up_cache = true}, nullptr, telemetry,
                    &memory_);
  }

  combu::Run run_ = test::run("a b c");
  FakeCacheLookup memory_;
};

TEST_F(CacheLookupTest, ACacheHitIsSkipped) {
  memory_.known = 1;
  const Outcome outcome = drive_with_cache();
  EXPECT_THAT(memory_.asked, UnorderedElementsAre(0, 1, 2)) << "each once";
  EXPECT_EQ(outcome.last.count(TrialState::skipped), 1U);
  EXPECT_EQ(outcome.last.started, 2U);
  EXPECT_EQ(recorder_.recalled_trials, memory_.asked);
  const auto skipped = std::ranges::find(recorder_.facts, TrialState::skipped, &Fact::state);
  EXPECT_EQ(skipped->trial, 1U);
  EXPECT_EQ(skipped->reason, "equal to `other` of run run0");
}

// Reports the digest of the image of each attempt that runs or has ended, as a cluster does.
class WithDigests final : public test::PassingEngine {
 public:
  using PassingEngine::PassingEngine;
  std::vector<Observation> list(const Selector& selector, ListDetail detail, std::stop_token stop) override {
    std::vector<Observation> seen = engine_.list(selector, detail, stop);
    std::ranges::for_each(seen, add_digest);
    return seen;
  }
  void watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
             std::stop_token stop) override {
    const auto pass_on = [&](Change change) {
      if (auto* seen = std::get_if<Observation>(&change)) add_digest(*seen);
      on_change(change);
    };
    engine_.watch(selector, pass_on, stop);
  }

 private:
  static void add_digest(Observation& seen) {
    if (has_run(seen.phase)) seen.digest = "lab/x@sha256:1";
  }
};

TEST_F(CacheLookupTest, ADigestThatIsReportedAfterTheStartIsJournaledOnce) {
  run_.experiment.trials[2].cache.on = false;
  const auto placing = open_simulated({.places = true, .speed = test::k_speed});
  WithDigests engine(*placing);
  (void)drive_on(engine, run_, {.until = Until::ended, .looks_up_cache = true}, nullptr, nullptr, &memory_);
  EXPECT_THAT(recorder_.started_trials, UnorderedElementsAre(0, 1)) << "those with `cache`";
  EXPECT_THAT(memory_.finished, UnorderedElementsAre(0, 1));
}

TEST_F(CacheLookupTest, OnlySucceededTrialsWithCacheArePublished) {
  run_.experiment.trials[1].process.cmd = {"sh", "-c", "exit 1"};
  run_.experiment.trials[2].cache.on = false;
  (void)drive_with_cache();
  EXPECT_THAT(memory_.finished, ElementsAre(0));
}

TEST_F(CacheLookupTest, ATrialIsPublishedAfterItsLogIsStored) {
  run_ = test::run("a");
  run_.experiment.trials[0].cache.on = true;
  run_.experiment.trials[0].process.cmd = {"sh", "-c", "echo text"};
  const test::Folder folder("run_recall_test");
  Telemetry telemetry(folder.path(), run_.id);
  memory_.on_done = [&] {
    const auto log = telemetry.log("a", 1);
    EXPECT_TRUE(log && log->complete);
  };
  (void)drive_with_cache(&telemetry);
  EXPECT_THAT(memory_.finished, ElementsAre(0));
}

TEST_F(CacheLookupTest, NothingIsSkippedWithoutACacheLookup) {
  const Outcome outcome = drive_on(*simulated_, run_, {.until = Until::ended, .looks_up_cache = true});
  EXPECT_EQ(outcome.last.count(TrialState::succeeded), 3U);
}

TEST_F(CacheLookupTest, AnErrorOfTheLookupEndsTheRun) {
  memory_.on_look_up = [] { throw Error(ErrorKind::corrupt, "record", "wrong"); };
  EXPECT_THROW((void)drive_with_cache(), Error);
}

}  // namespace
}  // namespace combu
