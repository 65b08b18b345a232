// The planner: timeout, start_deadline and the deadline of a run.
#include <gtest/gtest.h>

#include <utility>

#include "schedule_planned.hpp"

namespace combu::test {
namespace {

// An attempt of another run that holds a CPU.
Observation rival() {
  return {.key = {.run = RunId("other"), .trial = "r"},
          .experiment = "other",
          .id = "r1",
          .phase = Phase::created,
          .slots = Planned::cpus("1")};
}

TEST(Timeout, AnAttemptThatTakesTooLongIsStopped) {
  Planned it(with_timeout(test::experiment("a"), Seconds(60)));
  (void)it.begin();
  EXPECT_EQ(it.started("a"), " | a running");
  EXPECT_FALSE(it.done()) << "somebody must stay";
  EXPECT_EQ(it.pass(59.9), " | ");
  EXPECT_EQ(it.pass(0.1), "stop a | a running (timeout)");
  EXPECT_EQ(it.stopped("a"), " | ");
  EXPECT_EQ(it.ended("a", 0), "collect a | a failed (took longer than its timeout of 1m00s)");
}

TEST(Timeout, AnAttemptThatTheEngineStoppedFailsWithAnyExitCode) {
  Planned it(with_timeout(test::experiment("a"), Seconds(60)));
  it.begin_running({"a"});
  (void)it.pass(59.9);  // the engine's clock is ahead
  Observation seen = it.observation("a", Phase::ended);
  seen.exit_code = 0;
  seen.timed_out = true;
  EXPECT_EQ(it.seen(seen), "collect a | a failed (took longer than its timeout of 1m00s)");
}

TEST(Timeout, ATrialThatCannotBeStoppedAfterItsTimeoutFails) {
  Planned it(with_timeout(with_retries("a", {.max = 3}), Seconds(60)));
  it.begin_running({"a"});
  (void)it.pass(60);
  EXPECT_EQ(it.not_stopped("a"),
            " | a failed (took longer than its timeout of 1m00s, and could not be stopped: no)");
  EXPECT_TRUE(it.done());
}

TEST(Timeout, TheTimeoutIsEnforcedIfTheAnswerOfTheStartWasLost) {
  Planned it(with_timeout(test::experiment("a"), Seconds(60)));
  (void)it.begin();
  EXPECT_EQ(it.running("a"), " | a running");
  EXPECT_EQ(it.pass(60), " | a running (timeout)");
  EXPECT_EQ(it.not_started("a"), "stop a | ");
}

TEST(Timeout, AnAttemptThatEndedInTimeSucceedsIfItsEndIsObservedLate) {
  for (const double lasted : {3.0, 5.0, 6.0}) {
    Planned it(with_timeout(test::experiment("a"), Seconds(5)));
    it.begin_running({"a"});
    EXPECT_EQ(it.pass(20), "stop a | a running (timeout)");
    Observation seen = it.observation("a", Phase::ended);
    seen.exit_code = 0;
    seen.ended_at.reset();
    EXPECT_EQ(it.seen(seen), "look at a | ");
    EXPECT_EQ(it.seen(seen), " | ") << "that is being asked already";
    EXPECT_FALSE(it.done());
    seen.ran_at = at(0.5);
    seen.ended_at = at(0.5 + lasted);
    EXPECT_EQ(it.looked(seen),
              lasted < 5 ? " | a succeeded" : "collect a | a failed (took longer than its timeout of 5.0 s)");
  }
}

TEST(Timeout, AnAttemptLostWithItsHostHasNotTimedOut) {
  Planned it(with_timeout(with_retries("a", {.max = 1}), Seconds(5)));
  it.begin_running({"a"});
  EXPECT_EQ(it.pass(20), "stop a | a running (timeout)");
  it.listing_begins_after_a_break();
  Observation seen = it.observation("a", Phase::ended);
  seen.exit_code = 255;
  EXPECT_EQ(it.listed_after_a_break({seen}),
            "collect a | a retrying (lost with its host or engine (exit code 255); attempt 2 in 0 ms)");
}

TEST(StartDeadline, ATrialThatDoesNotRunInTimeIsStopped) {
  Planned it(with_start_deadline(test::experiment("a"), Seconds(10)));
  (void)it.begin();
  EXPECT_EQ(it.pass(10), " | a starting (start_deadline)")
      << "the engine has not answered: there may be nothing to stop yet";
  EXPECT_EQ(it.accepted("a"), "stop a | ");
  EXPECT_EQ(it.stopped("a"), " | a failed (did not run within its start_deadline of 10.0 s)");
  EXPECT_TRUE(it.done());
}

TEST(StartDeadline, TheDeadlineIsOverWhenTheTrialRuns) {
  Planned it(with_start_deadline(test::experiment("a"), Seconds(10)));
  it.begin_running({"a"});
  EXPECT_EQ(it.pass(20), " | ");
}

TEST(StartDeadline, TheRunIsNotDoneBeforeTheEndOfAnAttemptThatStartedTooLate) {
  Planned it(with_start_deadline(test::experiment("a"), Seconds(10)));
  (void)it.begin();
  (void)it.pass(10);
  EXPECT_EQ(it.started("a"), "stop a | a running");
  (void)it.stopped("a");
  EXPECT_FALSE(it.done()) << "its end is not told yet";
  EXPECT_EQ(it.ended("a", 143), "collect a | a failed (did not run within its start_deadline of 10.0 s)");
}

TEST(StartDeadline, AnUnansweredStartIsGivenUp) {
  Experiment experiment = with_start_deadline(test::experiment("a b"), Seconds(3));
  experiment.parallel_max = 1;
  Planned it(std::move(experiment));
  (void)it.begin();
  EXPECT_EQ(it.pass(4), " | a starting (start_deadline)");
  EXPECT_EQ(it.pass(15), "give up a | ");
  EXPECT_EQ(it.not_started("a"),
            "stop a, start b | a failed (did not run within its start_deadline of 3.0 s), b starting");
  (void)it.stopped("a");
  EXPECT_EQ(it.state("a"), TrialState::failed);
}

TEST(StartDeadline, AStartThatWaitsForAPlaceIsGivenUpAtOnce) {
  Planned it(with_start_deadline(test::experiment("a"), Seconds(3)));
  (void)it.begin();
  EXPECT_EQ(it.seen(it.observation("a", Phase::pending)), " | ");
  EXPECT_EQ(it.pass(3), "give up a | a starting (start_deadline)");
}

TEST(Deadline, AllTrialsAreStoppedAndNothingStarts) {
  Experiment experiment = test::experiment("a b<-a:succeeded !s");
  experiment.deadline = Seconds(3600);
  Planned it(experiment, k_wait);
  it.begin_running({"a", "s"});
  EXPECT_EQ(it.pass(3600),
            "stop a, stop s | b blocked (not started: the run's deadline of 1h00m has passed), a running "
            "(stopped)");
  (void)it.stopped("a");
  EXPECT_EQ(it.ended("a", 143), "collect a | a stopped (stopped: the run's deadline of 1h00m has passed)");
  (void)it.collected("a");
  (void)it.stopped("s");
  EXPECT_EQ(it.ended("s", 143), " | s stopped");
  EXPECT_TRUE(it.done());
}

TEST(Deadline, ATrialThatEndedBeforeTheDeadlineSucceedsIfItsEndIsObservedLate) {
  Experiment experiment = test::experiment("a");
  experiment.deadline = Seconds(60);
  Planned it(std::move(experiment));
  it.begin_running({"a"});
  EXPECT_EQ(it.pass(70), "stop a | a running (stopped)");
  Observation seen = it.observation("a", Phase::ended);
  seen.exit_code = 0;
  seen.ended_at = Instant{} + std::chrono::seconds(59);
  EXPECT_EQ(it.seen(seen), " | a succeeded");
}

TEST(Timeout, TheRunIsNotDoneBeforeTheEndIsObserved) {
  Planned it(with_timeout(with_retries("a", {.max = 1}), Seconds(60)));
  it.begin_running({"a"});
  (void)it.pass(60);
  EXPECT_FALSE(it.done());
  (void)it.stopped("a");
  EXPECT_FALSE(it.done()) << "it runs still";
  it.end_and_collect("a", 143);
  EXPECT_EQ(it.pass(1), "start a#2 | a starting");
  EXPECT_EQ(it.started("a"), " | a running") << "the next attempt has its own time";
  EXPECT_EQ(it.pass(59), " | ");
  EXPECT_EQ(it.pass(1), "stop a#2 | a running (timeout)");
}

TEST(Timeout, ATimeoutCountsIfTheEngineDoesNotKnowTheTimes) {
  Planned it(with_timeout(test::experiment("a"), Seconds(5)));
  it.begin_running({"a"});
  (void)it.pass(5);
  Observation seen = it.observation("a", Phase::ended);
  seen.exit_code = 0;
  seen.ended_at.reset();
  EXPECT_EQ(it.seen(seen), "look at a | ");
  EXPECT_EQ(it.looked(seen), "collect a | a failed (took longer than its timeout of 5.0 s)");
}

// The engine's clock differs from combu's clock.
TEST(Timeout, AStoppedAttemptHasTimedOutEvenIfTheEnginesClockDiffers) {
  Planned it(with_timeout(test::experiment("a"), Seconds(5)));
  it.begin_running({"a"});
  (void)it.pass(5);
  Observation seen = it.stopped_from_outside("a");
  seen.ran_at = at(0);
  seen.ended_at = at(4);
  EXPECT_EQ(it.seen(seen), "collect a | a failed (took longer than its timeout of 5.0 s)");
}

TEST(Timeout, TheTimeoutOfAnEndedAttemptHasNoEffect) {
  Experiment experiment = with_timeout(test::experiment("a"), Seconds(5));
  experiment.trials[0].outputs = {Output{.path = "/out"}};
  Planned it(std::move(experiment));
  it.begin_running({"a"});
  EXPECT_EQ(it.ended("a", 0), "take a | a collecting");
  EXPECT_EQ(it.pass(10), " | ");
  EXPECT_EQ(it.collected("a"), " | a succeeded");
}

TEST(Timeout, TheRunIsNotDoneWhileAServiceHasATimeout) {
  Planned it(with_timeout(test::experiment("!s"), Seconds(5)));
  it.begin_running({"s"});
  EXPECT_FALSE(it.done());
}

TEST(Timeout, TheRunIsNotDoneWhileTrialsWaitAndATimeoutMayPass) {
  Planned it(with_timeout(test::experiment("a b<-a:succeeded"), Seconds(5)));
  it.begin_running({"a"});
  EXPECT_FALSE(it.done()) << "b waits, and a may take too long";
}

TEST(StartDeadline, TheRunIsNotDoneBeforeTheStopIsAnswered) {
  Planned it(with_start_deadline(test::experiment("a"), Seconds(10)));
  (void)it.begin();
  (void)it.pass(10);
  EXPECT_EQ(it.started("a"), "stop a | a running");
  EXPECT_FALSE(it.done());
  EXPECT_EQ(it.ended("a", 143), "collect a | a failed (did not run within its start_deadline of 10.0 s)");
  (void)it.collected("a");
  EXPECT_FALSE(it.done()) << "the stop has not been answered";
  (void)it.stopped("a");
  EXPECT_TRUE(it.done());
}

TEST(StartDeadline, TheTimeCountsFromTheLastStart) {
  for (const bool known : {true, false}) {
    Planned it(with_start_deadline(test::experiment("a=1"), Seconds(10)), {.capacity = Planned::cpus("3")});
    (void)it.begin();
    (void)it.pass(5);
    EXPECT_EQ(it.lost_to("a", rival()), "start a | a ready, a starting");
    if (known) {
      (void)it.pass(1);
      EXPECT_EQ(it.lost_to("a", rival()), " | a ready");
      EXPECT_EQ(it.pass(1), "start a | a starting");
    }
    EXPECT_EQ(it.pass(9), " | ");
    EXPECT_EQ(it.pass(2), " | a starting (start_deadline)");
  }
}

TEST(StartDeadline, ATrialThatLostItsSlotsFailsAfterItsDeadline) {
  Planned it(with_start_deadline(test::experiment("a=1"), Seconds(10)), {.capacity = Planned::cpus("2")});
  (void)it.begin();
  EXPECT_EQ(it.pass(10), " | a starting (start_deadline)");
  EXPECT_EQ(it.lost_to("a", rival()), " | a failed (did not run within its start_deadline of 10.0 s)");
  EXPECT_TRUE(it.done());
}

TEST(StartDeadline, ALateStopAnswerOfAnEarlierAttemptHasNoEffect) {
  Experiment experiment = with_timeout(with_retries("a", {.max = 1}), Seconds(60));
  experiment.trials[0].start_deadline = Seconds(10);
  Planned it(std::move(experiment));
  it.begin_running({"a"});
  EXPECT_EQ(it.pass(60), "stop a | a running (timeout)");
  it.end_and_collect("a", 143);
  EXPECT_EQ(it.pass(1), "start a#2 | a starting");
  (void)it.accepted("a");
  EXPECT_EQ(it.pass(10), "stop a#2 | a starting (start_deadline)");
  EXPECT_EQ(it.stopped("a", 1), " | ");
  EXPECT_EQ(it.stopped("a", 2),
            " | a failed (did not run within its start_deadline of 10.0 s, after 2 attempts)");
}

TEST(Deadline, TheFirstStopCauseOfAnAttemptStays) {
  Experiment experiment = with_timeout(test::experiment("a"), Seconds(60));
  experiment.deadline = Seconds(65);
  Planned it(std::move(experiment), k_wait);
  it.begin_running({"a"});
  EXPECT_EQ(it.pass(60), "stop a | a running (timeout)");
  EXPECT_EQ(it.pass(10), " | ");
  EXPECT_EQ(it.ended("a", 143), "collect a | a failed (took longer than its timeout of 1m00s)");
}

TEST(Deadline, AStartInFlightIsNotGivenUp) {
  Experiment experiment = test::experiment("a");
  experiment.deadline = Seconds(60);
  Planned it(std::move(experiment), k_wait);
  (void)it.begin();
  EXPECT_EQ(it.pass(60), " | a starting (stopped)");
  EXPECT_EQ(it.pass(60), " | ");
  EXPECT_EQ(it.started("a"), "stop a | a running");
}

TEST(Deadline, TheRunIsNotDoneWhileServicesRunUntilTheDeadline) {
  Experiment experiment = test::experiment("!s");
  experiment.deadline = Seconds(60);
  Planned it(std::move(experiment));
  it.begin_running({"s"});
  EXPECT_FALSE(it.done());
}

}  // namespace
}  // namespace combu::test
