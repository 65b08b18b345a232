// The parts of drive(), each tested alone: logs, usage, progress, failure reports.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "experiments.hpp"
#include "run/failure_reports.hpp"
#include "run/log_collector.hpp"
#include "run/poll_pause.hpp"
#include "run/run_progress.hpp"
#include "run/usage_poller.hpp"

namespace combu {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Instant k_now{std::chrono::seconds(1'800'000'000)};

Instant after(Seconds time) {
  return k_now + std::chrono::duration_cast<Instant::duration>(time);
}

// ---- Logs

TEST(LogCollector, OrdersTheLogOfAnAttemptOnce) {
  LogCollector logs(true);
  const auto order = logs.end(3, 1);
  ASSERT_TRUE(order);
  EXPECT_EQ(order->trial, 3U);
  EXPECT_EQ(order->attempt, 1);
  EXPECT_FALSE(logs.end(3, 1));
  EXPECT_TRUE(logs.is_storing(3));
  EXPECT_EQ(logs.pending(), 1U);
  EXPECT_TRUE(logs.end(3, 2)) << "another attempt";
  EXPECT_EQ(logs.pending(), 2U);
}

TEST(LogCollector, OrdersNothingIfNoLogsAreStored) {
  LogCollector logs(false);
  EXPECT_FALSE(logs.end(3, 1));
  EXPECT_EQ(logs.pending(), 0U);
}

TEST(LogCollector, HoldsTheNextEventOfAFailedAttemptUntilItsLogIsStored) {
  LogCollector logs(true);
  const auto order = logs.end(3, 1);
  logs.hold_next(3);
  EXPECT_TRUE(logs.holds({.trial = 3}));
  EXPECT_FALSE(logs.holds({.trial = 3})) << "only the next one";
  const auto stored = logs.stored({.order = *order, .fault = ""}, true, k_now);
  EXPECT_TRUE(stored.is_final);
  EXPECT_TRUE(stored.is_last);
  ASSERT_TRUE(stored.held);
  EXPECT_EQ(stored.held->trial, 3U);
  EXPECT_EQ(logs.pending(), 0U);
  EXPECT_FALSE(logs.is_storing(3));
}

TEST(LogCollector, KnowsOfEachAttemptIfItsLogIsStored) {
  LogCollector logs(true);
  const auto first = logs.end(3, 1);
  const auto second = logs.end(3, 2);
  EXPECT_FALSE(logs.is_stored(3, 1));
  (void)logs.stored({.order = *second, .fault = ""}, true, k_now);
  EXPECT_TRUE(logs.is_stored(3, 2));
  EXPECT_FALSE(logs.is_stored(3, 1));
  (void)logs.stored({.order = *first, .fault = "disk full"}, false, k_now);
  EXPECT_FALSE(logs.is_stored(3, 1)) << "combu has given up this log";
}

TEST(LogCollector, HoldsNothingIfTheLogIsAlreadyStored) {
  LogCollector logs(true);
  const auto order = logs.end(3, 1);
  logs.hold_next(3);
  (void)logs.stored({.order = *order, .fault = ""}, true, k_now);
  EXPECT_FALSE(logs.holds({.trial = 3}));
}

TEST(LogCollector, RepeatsAfterDoublingPausesAndGivesUpAfterSixTries) {
  LogCollector logs(true);
  IngestLog order = *logs.end(3, 1);
  Seconds passed{0};
  for (const double pause : {1, 2, 4, 8, 16}) {
    EXPECT_FALSE(logs.stored({.order = order, .fault = "disk full"}, true, after(passed)).is_final);
    EXPECT_THAT(logs.due(after(passed + Seconds(pause - 0.001))), IsEmpty());
    passed += Seconds(pause);
    const std::vector<IngestLog> due = logs.due(after(passed));
    ASSERT_EQ(due.size(), 1U) << pause;
    order = due.front();
  }
  EXPECT_EQ(logs.pending(), 1U);
  const auto last = logs.stored({.order = order, .fault = "disk full"}, true, after(passed));
  EXPECT_TRUE(last.is_final);
  EXPECT_TRUE(last.is_last);
  EXPECT_EQ(logs.pending(), 0U);
}

TEST(LogCollector, DoesNotRepeatIfItMayNot) {
  LogCollector logs(true);
  const auto order = logs.end(3, 1);
  EXPECT_TRUE(logs.stored({.order = *order, .fault = "disk full"}, false, k_now).is_final);
  EXPECT_THAT(logs.due(after(Seconds(60))), IsEmpty());
}

TEST(LogCollector, TheLogOfAnEarlierAttemptIsNotTheLast) {
  LogCollector logs(true);
  const auto first = logs.end(3, 1);
  const auto second = logs.end(3, 2);
  logs.hold_next(3);
  EXPECT_TRUE(logs.holds({.trial = 3}));
  const auto stored = logs.stored({.order = *first, .fault = ""}, true, k_now);
  EXPECT_TRUE(stored.is_final);
  EXPECT_FALSE(stored.is_last);
  EXPECT_FALSE(stored.held);
  EXPECT_TRUE(logs.stored({.order = *second, .fault = ""}, true, k_now).held);
}

// ---- Usage

TEST(UsagePoller, PollsARunningAttemptAfterTheFirstPauseAndThenMoreRarely) {
  UsagePoller usage(ReadingPace{});
  usage.begin(3, 1, "id", k_now);
  EXPECT_FALSE(usage.next(after(Seconds(0.9)), false));
  EXPECT_TRUE(usage.is_due_before(after(Seconds(1.1))));
  EXPECT_FALSE(usage.is_due_before(after(Seconds(1))));
  const auto first = usage.next(after(Seconds(1)), false);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->trial, 3U);
  EXPECT_EQ(first->id, "id");
  EXPECT_FALSE(usage.next(after(Seconds(100)), false)) << "one at a time";
  usage.answer({.poll = *first, .usage = std::nullopt, .log_growth = {}}, after(Seconds(1)));
  EXPECT_FALSE(usage.next(after(Seconds(2.4)), false));
  EXPECT_TRUE(usage.next(after(Seconds(2.5)), false));
}

TEST(UsagePoller, KeepsTheLargestMemoryAndTheLastCpuTime) {
  using std::chrono::nanoseconds;
  UsagePoller usage(ReadingPace{});
  usage.begin(3, 1, "id", k_now);
  const auto poll = usage.next(after(Seconds(1)), false);
  ASSERT_TRUE(poll);
  usage.answer({.poll = *poll, .usage = Usage{.memory = {50}, .cpu = nanoseconds(1)}, .log_growth = {}},
               k_now);
  usage.answer({.poll = *poll, .usage = Usage{.memory = {20}, .cpu = nanoseconds(7)}, .log_growth = {}},
               k_now);
  usage.answer({.poll = *poll, .usage = std::nullopt, .log_growth = {}}, k_now);
  const auto last = usage.end(3);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->memory.count, 50);
  EXPECT_EQ(last->cpu, nanoseconds(7));
  EXPECT_FALSE(usage.end(3));
}

TEST(UsagePoller, AnAnswerForAnEarlierAttemptChangesNothing) {
  UsagePoller usage(ReadingPace{});
  usage.begin(3, 1, "one", k_now);
  const auto first = usage.next(after(Seconds(1)), false);
  ASSERT_TRUE(first);
  EXPECT_FALSE(usage.end(3));
  usage.begin(3, 2, "two", after(Seconds(1)));
  usage.answer({.poll = *first, .usage = Usage{.memory = {50}, .cpu = {}}, .log_growth = {}},
               after(Seconds(1)));
  const auto second = usage.next(after(Seconds(2)), false);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->id, "two");
  EXPECT_FALSE(usage.next(after(Seconds(100)), false));
  EXPECT_FALSE(usage.end(3));
}

TEST(UsagePoller, PollsOnceASecondWhileTheEngineIsBusy) {
  UsagePoller usage(ReadingPace{});
  for (TrialIndex trial = 0; trial < 3; ++trial) usage.begin(trial, 1, "id", k_now);
  EXPECT_TRUE(usage.next(after(Seconds(1)), true));
  EXPECT_FALSE(usage.next(after(Seconds(1.9)), true));
  EXPECT_TRUE(usage.next(after(Seconds(2)), true));
  EXPECT_TRUE(usage.next(after(Seconds(2)), false));
}

TEST(UsagePoller, PausesBetweenThePollsOfARun) {
  UsagePoller usage({.poll_pause_min = Seconds(0.5)});
  for (TrialIndex trial = 0; trial < 3; ++trial) usage.begin(trial, 1, "id", k_now);
  EXPECT_TRUE(usage.next(after(Seconds(1)), false));
  EXPECT_FALSE(usage.next(after(Seconds(1.4)), false));
  EXPECT_TRUE(usage.next(after(Seconds(1.5)), false));
  EXPECT_FALSE(usage.next(after(Seconds(2.4)), true)) << "busy";
  EXPECT_TRUE(usage.next(after(Seconds(2.5)), true));
}

TEST(UsagePoller, AttemptsWhoseLogsGrowFastTakeTurnsWithAllOthers) {
  UsagePoller usage({.poll_pause_min = Seconds(0.5)});
  for (TrialIndex trial = 0; trial < 4; ++trial) usage.begin(trial, 1, "id", k_now);
  std::vector<TrialIndex> polled;
  for (double at = 1; at < 4; at += 0.5) {
    const auto poll = usage.next(after(Seconds(at)), false);
    ASSERT_TRUE(poll);
    polled.push_back(poll->trial);
    const Bytes growth = poll->trial == 0 ? Bytes{k_poll_brings_max.count * 8} : Bytes{};
    usage.answer({.poll = *poll, .usage = std::nullopt, .log_growth = growth}, after(Seconds(at)));
  }
  EXPECT_THAT(polled, ElementsAre(0, 0, 1, 0, 2, 0));
}

// ---- Progress

class RunProgressTest : public testing::Test {
 protected:
  RunProgressTest() { progress_.begin(k_now); }
  void observe(TrialIndex trial, TrialState state, Seconds at, Cause cause = Cause::none) {
    progress_.observe({.trial = trial, .state = state, .cause = cause, .slots = {}}, true, after(at));
  }
  [[nodiscard]] Snapshot at(Seconds time) const { return progress_.snapshot(unfinished_, after(time)); }

  combu::Run run_ = test::run("a b c d e f g");
  std::size_t unfinished_ = 7;
  RunProgress progress_{run_, Until::ended, Slots{.cpus = parse_cpus("4")}};
};

TEST_F(RunProgressTest, ShowsTheTrialsThatAreStartingAndRunning) {
  observe(1, TrialState::starting, Seconds(0));
  observe(2, TrialState::starting, Seconds(0));
  EXPECT_THAT(at(Seconds(1)).starting, ElementsAre(1, 2));
  observe(1, TrialState::running, Seconds(1));
  observe(1, TrialState::running, Seconds(2));  // the attempt has become healthy
  const Snapshot snapshot = at(Seconds(4));
  EXPECT_EQ(snapshot.trials, 7U);
  EXPECT_THAT(snapshot.starting, ElementsAre(2));
  ASSERT_EQ(snapshot.running.size(), 1U);
  EXPECT_EQ(snapshot.running[0].trial, 1U);
  EXPECT_EQ(snapshot.running[0].age, Seconds(3));
  EXPECT_EQ(snapshot.started, 1U);
  EXPECT_EQ(snapshot.elapsed, Seconds(4));
  EXPECT_EQ(snapshot.capacity, Slots{.cpus = parse_cpus("4")});
}

TEST_F(RunProgressTest, ShowsNoRunningTrialsIfThereAreMany) {
  for (TrialIndex trial = 0; trial < Snapshot::k_running_max + 1; ++trial) {
    observe(trial, TrialState::starting, Seconds(0));
    observe(trial, TrialState::running, Seconds(1));
  }
  EXPECT_THAT(at(Seconds(2)).running, IsEmpty());
  observe(0, TrialState::collecting, Seconds(2));
  EXPECT_EQ(at(Seconds(2)).running.size(), Snapshot::k_running_max);
}

TEST_F(RunProgressTest, EstimatesTheTimeLeftWithoutPauses) {
  for (TrialIndex trial = 0; trial < 3; ++trial) {
    observe(trial, TrialState::starting, Seconds(10.0 * trial));
    observe(trial, TrialState::running, Seconds(10.0 * trial));
    observe(trial, TrialState::succeeded, Seconds(10.0 * trial + 10));
  }
  unfinished_ = 4;
  EXPECT_EQ(at(Seconds(30)).left, Seconds(40));
  progress_.set_paused(true, after(Seconds(30)));
  EXPECT_FALSE(at(Seconds(40)).left);
  progress_.set_paused(false, after(Seconds(130)));
  observe(3, TrialState::starting, Seconds(130));
  observe(3, TrialState::running, Seconds(130));
  observe(3, TrialState::succeeded, Seconds(140));
  unfinished_ = 3;
  EXPECT_EQ(at(Seconds(140)).left, Seconds(30));
}

TEST_F(RunProgressTest, TheWorkOfARunningTrialCountsUpToTheLastEnd) {
  observe(3, TrialState::starting, Seconds(0));
  observe(3, TrialState::running, Seconds(0));
  for (TrialIndex trial = 0; trial < 3; ++trial) {
    observe(trial, TrialState::starting, Seconds(10.0 * trial));
    observe(trial, TrialState::running, Seconds(10.0 * trial));
    observe(trial, TrialState::succeeded, Seconds(10.0 * trial + 10));
  }
  unfinished_ = 5;
  EXPECT_EQ(at(Seconds(30)).left, Seconds(30));
}

TEST_F(RunProgressTest, KeepsTheFactsOfTrialsWithoutSuccess) {
  observe(0, TrialState::failed, Seconds(1), Cause::error);
  observe(1, TrialState::retrying, Seconds(1), Cause::error);
  observe(2, TrialState::succeeded, Seconds(1));
  observe(3, TrialState::blocked, Seconds(1));
  const std::vector<Fact> facts = progress_.take_unsuccessful();
  ASSERT_EQ(facts.size(), 2U);
  EXPECT_EQ(facts[0].trial, 0U);
  EXPECT_EQ(facts[1].trial, 3U);
}

TEST_F(RunProgressTest, ContinuesFromAnEarlierProcess) {
  run_.began_at = after(Seconds(-100));
  progress_.begin(k_now);
  progress_.restore(0, {.state = TrialState::running, .was_started = true, .ran_at = after(Seconds(-60))},
                    true, k_now);
  progress_.restore(1, {.state = TrialState::failed, .cause = Cause::error, .was_started = true}, true,
                    k_now);
  progress_.restore(2, {}, true, k_now);
  const Snapshot snapshot = at(Seconds(5));
  EXPECT_EQ(snapshot.elapsed, Seconds(105));
  EXPECT_EQ(snapshot.started, 2U);
  ASSERT_EQ(snapshot.running.size(), 1U);
  EXPECT_EQ(snapshot.running[0].age, Seconds(65));
  EXPECT_EQ(progress_.take_unsuccessful().size(), 1U);
}

// ---- Failures

Fact failed(TrialIndex trial) {
  return {.trial = trial, .state = TrialState::failed, .cause = Cause::error, .slots = {}};
}

TEST(FailureReports, ReportAFailureAtOnceIfNoLinesAreExpected) {
  FailureReports reports;
  const auto report = reports.add(failed(3));
  ASSERT_TRUE(report);
  EXPECT_EQ(report->fact.trial, 3U);
  EXPECT_THAT(report->tail, IsEmpty());
}

TEST(FailureReports, AFactWaitsForItsLines) {
  FailureReports reports;
  CollectCommand command{.trial = 3, .tail = true};
  reports.expect_tail(command);
  EXPECT_FALSE(reports.add(failed(3)));
  const auto report = reports.add_tail(3, {"last"});
  ASSERT_TRUE(report);
  EXPECT_THAT(report->tail, ElementsAre("last"));
  EXPECT_FALSE(reports.add_tail(3, {})) << "reported";
  EXPECT_THAT(reports.rest(), IsEmpty());
}

TEST(FailureReports, LinesWaitForTheirFact) {
  FailureReports reports;
  CollectCommand command{.trial = 3, .tail = true};
  reports.expect_tail(command);
  EXPECT_FALSE(reports.add_tail(3, {"last"}));
  EXPECT_FALSE(reports.add_tail(3, {})) << "the first lines count";
  const auto report = reports.add(failed(3));
  ASSERT_TRUE(report);
  EXPECT_THAT(report->tail, ElementsAre("last"));
}

TEST(FailureReports, LinesAreReadOnlyForTheFirstFailures) {
  FailureReports reports;
  for (TrialIndex trial = 0; trial < 21; ++trial) {
    CollectCommand command{.trial = trial, .tail = true};
    reports.expect_tail(command);
    EXPECT_EQ(command.tail, trial < 20) << trial;
  }
  EXPECT_TRUE(reports.add(failed(20)));
  EXPECT_FALSE(reports.add(failed(19)));
  EXPECT_EQ(reports.rest().size(), 1U);
}

}  // namespace
}  // namespace combu
