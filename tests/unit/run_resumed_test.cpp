// drive() continues a run from the state in which an earlier process left it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "unit/run_drive.hpp"

namespace combu {
namespace {

using testing::IsEmpty;
using testing::UnorderedElementsAre;

class PastTest : public test::DriveTest {
 protected:
  // Starts the trials, which then run until they are stopped.
  void start_all() {
    for (Trial& trial : run_.experiment.trials) trial.process.cmd = {"sleep", "1000000"};
    (void)drive(run_, {});
    recorder_.snapshots.clear();
  }
  void end(const std::string& trial) {
    simulated_->stop({.run = run_.id, .trial = trial, .attempt = 1}, std::nullopt, {});
  }

  combu::Run run_ = test::run("a b c");
  test::Hooked hooked_{*simulated_};
  test::Places places_;
};

TEST_F(PastTest, EarlierStartsCount) {
  const Outcome outcome = drive(
      run_, {.restored = {RestoredTrial{.state = TrialState::succeeded, .was_started = true},
                          RestoredTrial{.state = TrialState::failed, .was_started = true}, RestoredTrial{}}});
  EXPECT_EQ(outcome.last.started, 3U);
}

TEST_F(PastTest, EarlierFailuresAreAmongTheUnsuccessful) {
  const Outcome outcome =
      drive(run_, {.restored = {RestoredTrial{.state = TrialState::succeeded, .was_started = true},
                                RestoredTrial{.state = TrialState::failed,
                                              .attempt = 2,
                                              .cause = Cause::error,
                                              .exit_code = 7,
                                              .reason = "exit code 7",
                                              .was_started = true},
                                RestoredTrial{.state = TrialState::blocked, .root = 1}}});
  ASSERT_EQ(outcome.unsuccessful.size(), 2U);
  const Fact& failed = outcome.unsuccessful[0];
  EXPECT_EQ(failed.trial, 1U);
  EXPECT_EQ(failed.attempt, 2);
  EXPECT_EQ(failed.exit_code, 7);
  EXPECT_EQ(failed.reason, "exit code 7");
  EXPECT_TRUE(failed.ran);
  EXPECT_EQ(outcome.unsuccessful[1].root, 1U);
}

TEST_F(PastTest, ATrialOfAnEarlierProcessIsShownWithItsAge) {
  start_all();
  const Instant before = real_clock().now() - std::chrono::seconds(100);
  recorder_.on_snapshot = [&](const Snapshot& snapshot) {
    if (snapshot.running.size() != 1) return;
    EXPECT_EQ(snapshot.running[0].trial, 0U);
    EXPECT_GE(snapshot.running[0].age, Seconds(100));
    end("a");
  };
  (void)drive(
      run_, {.until = Until::ended,
             .restored = {RestoredTrial{.state = TrialState::running, .was_started = true, .ran_at = before},
                          RestoredTrial{.state = TrialState::succeeded, .was_started = true},
                          RestoredTrial{.state = TrialState::succeeded, .was_started = true}}});
  EXPECT_FALSE(recorder_.snapshots.front().running.empty());
}

TEST_F(PastTest, AServiceOfAnEarlierProcessIsNotShownAsRunning) {
  run_.experiment.trials[1].service = true;
  start_all();
  recorder_.on_snapshot = [&](const Snapshot& snapshot) {
    for (const RunningTrial& one : snapshot.running) EXPECT_EQ(one.trial, 0U);
    if (!snapshot.running.empty()) end("a");
  };
  const RestoredTrial runs{.state = TrialState::running, .was_started = true, .ran_at = real_clock().now()};
  (void)drive(run_,
              {.until = Until::ended,
               .restored = {runs, runs, RestoredTrial{.state = TrialState::succeeded, .was_started = true}}});
}

TEST_F(PastTest, ATrialThatCollectsItsOutputsIsNotShownAsRunning) {
  start_all();
  end("a");
  run_.experiment.trials[0].outputs = {Output{.path = "/out", .required = false}};
  std::atomic<bool> is_shown = false;
  hooked_.before_copy_out = [&](const Key&, const std::stop_token&) { is_shown.wait(false); };
  recorder_.on_snapshot = [&](const Snapshot& snapshot) {
    EXPECT_THAT(snapshot.running, IsEmpty());
    if (snapshot.count(TrialState::collecting) == 0) return;
    is_shown = true;
    is_shown.notify_all();
  };
  const RestoredTrial over{.state = TrialState::succeeded, .was_started = true};
  const Outcome outcome = drive_on(hooked_, run_,
                                   {.until = Until::ended,
                                    .restored = {RestoredTrial{.state = TrialState::collecting,
                                                               .exit_code = 0,
                                                               .was_started = true,
                                                               .ran_at = real_clock().now()},
                                                 over, over}},
                                   &places_);
  EXPECT_TRUE(is_shown);
  EXPECT_EQ(outcome.last.count(TrialState::succeeded), 3U);
}

// The container may be gone, or another run may have a container of the same name.
TEST_F(PastTest, ARunningTrialThatIsNotListedHasFailed) {
  combu::Run other = test::run("a");
  other.id = RunId("run2");
  other.experiment.name = "other";
  other.experiment.trials[0].process.cmd = {"sleep", "1000000"};
  other.experiment.trials[0].slots.cpus = parse_cpus("1");
  (void)drive(other, {});
  const RestoredTrial over{.state = TrialState::succeeded, .was_started = true};
  const Outcome outcome = drive(
      run_, {.until = Until::ended,
             .capacity = Slots{.cpus = parse_cpus("8")},
             .restored = {RestoredTrial{.state = TrialState::running, .was_started = true}, over, over}});
  ASSERT_EQ(outcome.unsuccessful.size(), 1U);
  EXPECT_EQ(outcome.unsuccessful[0].trial, 0U);
}

// If there is a capacity, all runs on the engine count.
TEST_F(PastTest, OtherRunsHoldSlotsIfThereIsACapacity) {
  combu::Run other = test::run("x=2");
  other.id = RunId("run2");
  other.experiment.name = "other";
  other.experiment.trials[0].process.cmd = {"sleep", "1000000"};
  (void)drive(other, {});
  std::atomic<bool> is_listed = false;  // the start waits for this; otherwise the run could end first
  hooked_.before_start = [&](const Trial&, const std::stop_token&) { is_listed.wait(false); };
  recorder_.on_snapshot = [&](const Snapshot& snapshot) {
    if (snapshot.held_by_others.cpus.nano == 0) return;
    is_listed = true;
    is_listed.notify_all();
  };
  const Outcome outcome = drive_on(hooked_, run_, {.capacity = Slots{.cpus = parse_cpus("8")}});
  EXPECT_EQ(outcome.last.held_by_others.cpus, parse_cpus("2"));
}

TEST_F(PastTest, WithoutACapacityOnlyTheRunIsListed) {
  hooked_.before_list = [&](const Selector& selector, ListDetail) {
    EXPECT_EQ(selector.run, run_.id);
    EXPECT_EQ(selector.experiment, run_.experiment.name);
  };
  (void)drive_on(hooked_, run_, {});
}

TEST_F(PastTest, ATrialThatWasRemovedFromTheFileIsStopped) {
  run_ = test::run("a");
  run_.experiment.trials[0].start_deadline = Seconds(600);
  start_all();
  const Outcome outcome =
      drive(run_, {.until = Until::ended,
                   .restored = {RestoredTrial{
                       .state = TrialState::running, .was_started = true, .departure = Departure::removed}}});
  EXPECT_EQ(outcome.last.count(TrialState::stopped), 1U);
  EXPECT_FALSE(world_.is_running("a"));
}

TEST_F(PastTest, ATrialIsStoppedAtItsTimeout) {
  run_ = test::run("a");
  run_.experiment.trials[0].process.cmd = {"sleep", "1000000"};
  run_.experiment.trials[0].timeout = Seconds(0.05);
  const Outcome outcome = drive(run_, {.until = Until::ended});
  ASSERT_EQ(outcome.unsuccessful.size(), 1U);
  EXPECT_EQ(outcome.unsuccessful[0].cause, Cause::timeout);
}

TEST_F(PastTest, PartialOutputsOfATrialOfAnEarlierProcessAreCollected) {
  run_ = test::run("a");
  start_all();
  run_.experiment.trials[0].outputs = {Output{.path = "/out", .required = false}};
  run_.experiment.collect.every = Seconds(0.01);
  int calls = 0;
  hooked_.before_copy_out = [&](const Key&, const std::stop_token&) {
    if (++calls == 2) end("a");
  };
  (void)drive_on(
      hooked_, run_,
      {.until = Until::ended, .restored = {RestoredTrial{.state = TrialState::running, .was_started = true}}},
      &places_);
  EXPECT_EQ(places_.all().at(0), "a@so-far");
}

// Its listings contain the times of the attempts only for ListDetail::full.
class ShortLists final : public test::Hooked {
 public:
  using Hooked::Hooked;
  std::vector<Observation> list(const Selector& selector, ListDetail detail, std::stop_token stop) override {
    std::vector<Observation> all = Hooked::list(selector, detail, stop);
    for (Observation& seen : all) {
      seen.ran_at =
          detail == ListDetail::full ? std::optional(ended - std::chrono::seconds(10)) : std::nullopt;
      seen.ended_at = detail == ListDetail::full ? std::optional(ended) : std::nullopt;
    }
    return all;
  }

  const Instant ended = real_clock().now() - std::chrono::seconds(10);
};

TEST_F(PastTest, TrialsThatEndedEarlierDoNotLowerTheEstimate) {
  run_ = test::run("a b c d e f g h i j k l m n");
  for (Trial& trial : run_.experiment.trials) trial.process.cmd = {"sleep", "10"};
  run_.experiment.parallel_max = 1;
  std::vector<RestoredTrial> restored(14);
  for (std::size_t i = 0; i < 6; ++i) restored[i] = {.state = TrialState::succeeded, .was_started = true};
  recorder_.on_snapshot = [](const Snapshot& snapshot) {
    const auto rest = static_cast<double>(14 - snapshot.count(TrialState::succeeded));
    if (snapshot.left && rest > 0) {
      EXPECT_GE(snapshot.left->count(), (rest - 1) * 10 / test::k_speed * 0.8);
    }
  };
  (void)drive(run_, {.until = Until::ended, .restored = restored});
}

// Trials that ended while no process drove the run.
class EndedMeanwhileTest : public PastTest {
 protected:
  EndedMeanwhileTest() {
    (void)drive(run_, {});
    (void)await_end(*simulated_, {.run = run_.id}, [](const Observation&) {}, {});
    recorder_.facts.clear();
  }
  Outcome go_on() {
    const RestoredTrial runs{.state = TrialState::running, .was_started = true};
    const RestoredTrial over{.state = TrialState::succeeded, .was_started = true};
    return drive_on(short_, run_, {.until = Until::ended, .restored = {runs, runs, over}});
  }

  ShortLists short_{*simulated_};
};

TEST_F(EndedMeanwhileTest, TheirTimesComeFromTheEngine) {
  int looks = 0;
  short_.before_list = [&](const Selector& selector, ListDetail detail) {
    if (detail != ListDetail::full) return;
    ++looks;
    EXPECT_THAT(selector.trials, UnorderedElementsAre("a", "b"));
  };
  EXPECT_EQ(go_on().last.count(TrialState::succeeded), 3U);
  EXPECT_EQ(looks, 1);
  ASSERT_EQ(recorder_.facts.size(), 2U);
  for (const Fact& fact : recorder_.facts) EXPECT_EQ(fact.at, short_.ended);
}

TEST_F(EndedMeanwhileTest, ATrialThatIsRemovedBeforeItsInspectionIsGone) {
  short_.before_list = [&](const Selector&, ListDetail detail) {
    if (detail == ListDetail::full) (void)simulated_->release({.run = run_.id, .trials = {"a"}}, {}, {});
  };
  const Outcome outcome = go_on();
  EXPECT_EQ(outcome.last.count(TrialState::succeeded), 2U);
  ASSERT_EQ(outcome.unsuccessful.size(), 1U);
  EXPECT_EQ(outcome.unsuccessful[0].trial, 0U);
}

TEST_F(EndedMeanwhileTest, AnEngineThatIsLostDuringTheInspectionEndsTheRun) {
  short_.before_list = [](const Selector&, ListDetail detail) {
    if (detail == ListDetail::full) throw Error(ErrorKind::unavailable, "engine", "gone");
  };
  EXPECT_THROW((void)go_on(), Error);
}

}  // namespace
}  // namespace combu
