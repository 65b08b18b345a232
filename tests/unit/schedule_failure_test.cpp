// Causes, reasons and pauses of failed attempts.

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>

#include "schedule/failure.hpp"

namespace combu::schedule {
namespace {

constexpr Instant k_now{std::chrono::seconds(1'800'000'000)};
constexpr Instant k_later = k_now + Instant::duration(1);

Observation ended(std::optional<int> exit_code) {
  Observation observation;
  observation.phase = Phase::ended;
  observation.exit_code = exit_code;
  return observation;
}
Observation stopped(std::optional<int> exit_code) {
  Observation observation = ended(exit_code);
  observation.stopped = true;
  return observation;
}
Observation out_of_memory(Observation observation) {
  observation.oom = true;
  return observation;
}
Observation perhaps_out_of_memory(Observation observation) {
  observation.oom_likely = true;
  return observation;
}

// ---- cause_of

TEST(CauseOf, TheCauseIsAnErrorUnlessTheEngineKnowsMore) {
  for (const int code : {1, 137, 143, 255}) EXPECT_EQ(cause_of(ended(code), false), Cause::error) << code;
  EXPECT_EQ(cause_of(ended(std::nullopt), false), Cause::error);
}

TEST(CauseOf, AnAttemptThatUsedTooMuchDiskHasAnError) {
  Observation observation = ended(137);
  observation.oom_likely = true;
  observation.placement.limit_error = "the pod was evicted";
  EXPECT_EQ(cause_of(observation, true), Cause::error);
  const Ending ending = ending_of(observation);
  EXPECT_EQ(ending.cause, Cause::error);
  EXPECT_EQ(ending.reason, "the pod was evicted");
}

TEST(CauseOf, ASignalThroughTheEngineIsAStop) {
  EXPECT_EQ(cause_of(stopped(137), false), Cause::stopped);
  EXPECT_EQ(cause_of(stopped(1), false), Cause::stopped);
}

TEST(CauseOf, TheEngineItselfMayHaveEndedAnAttemptAtItsTimeout) {
  for (const bool after_break : {false, true}) {
    Observation observation = stopped(143);
    observation.timed_out = true;
    EXPECT_EQ(cause_of(observation, after_break), Cause::timeout);
    EXPECT_EQ(cause_of(out_of_memory(observation), after_break), Cause::timeout);
  }
}

TEST(CauseOf, AnAttemptThatTheEngineReportsAsLostIsLost) {
  Observation observation = ended(std::nullopt);
  observation.lost = "its host was removed";
  EXPECT_EQ(cause_of(observation, false), Cause::host_lost);
  observation.timed_out = true;
  EXPECT_EQ(cause_of(observation, false), Cause::host_lost);
  const Ending ending = ending_of(observation);
  EXPECT_EQ(ending.cause, Cause::host_lost);
  EXPECT_EQ(ending.reason, "its host was removed");
}

TEST(CauseOf, OutOfMemoryIsTheCauseEvenAfterABreak) {
  for (const bool after_break : {false, true}) {
    EXPECT_EQ(cause_of(out_of_memory(ended(137)), after_break), Cause::oom);
    EXPECT_EQ(cause_of(out_of_memory(ended(1)), after_break), Cause::oom);
    EXPECT_EQ(cause_of(out_of_memory(stopped(137)), after_break), Cause::oom);
  }
}

TEST(CauseOf, AProcessKilledForMemoryDoesNotHideAStop) {
  EXPECT_EQ(cause_of(out_of_memory(stopped(143)), false), Cause::stopped);
  EXPECT_EQ(cause_of(out_of_memory(stopped(143)), true), Cause::host_lost);
}

TEST(CauseOf, ASignalAfterABreakIsALostHost) {
  for (const int code : {137, 143, 255}) EXPECT_EQ(cause_of(ended(code), true), Cause::host_lost) << code;
  EXPECT_EQ(cause_of(stopped(1), true), Cause::host_lost);
  for (const int code : {1, 130, 139}) EXPECT_EQ(cause_of(ended(code), true), Cause::error) << code;
  EXPECT_EQ(cause_of(ended(std::nullopt), true), Cause::error);
}

TEST(CauseOf, LikelyOutOfMemoryIsTheCauseUnlessTheHostWasLost) {
  EXPECT_EQ(cause_of(perhaps_out_of_memory(ended(137)), false), Cause::oom);
  EXPECT_EQ(cause_of(perhaps_out_of_memory(stopped(137)), false), Cause::oom);
  EXPECT_EQ(cause_of(perhaps_out_of_memory(ended(137)), true), Cause::host_lost);
  EXPECT_EQ(cause_of(perhaps_out_of_memory(ended(1)), true), Cause::oom);
}

// ---- break_since

TEST(BreakSince, ARestartAfterTheBeginningOfTheAttemptIsABreak) {
  EXPECT_EQ(break_since(k_now, k_later), Break::was);
  EXPECT_EQ(break_since(k_now, k_now), Break::was_not);
  EXPECT_EQ(break_since(k_later, k_now), Break::was_not);
}

TEST(BreakSince, ABreakIsAssumedIfATimeIsNotKnown) {
  EXPECT_EQ(break_since(std::nullopt, k_now), Break::was);
  EXPECT_EQ(break_since(k_now, std::nullopt), Break::was);
  EXPECT_EQ(break_since(std::nullopt, std::nullopt), Break::was);
}

// ---- state_after

TEST(StateAfter, TheStateIsFailedUnlessTheAttemptWasStopped) {
  EXPECT_EQ(state_after(Cause::stopped), TrialState::stopped);
  for (const Cause cause : {Cause::error, Cause::oom, Cause::timeout, Cause::start_deadline, Cause::host_lost,
                            Cause::start, Cause::outputs})
    EXPECT_EQ(state_after(cause), TrialState::failed) << to_string(cause);
}

// ---- failure_reason

std::string reason_of(Cause cause, std::optional<int> exit_code, Bytes memory = {}) {
  Trial trial;
  trial.timeout = Seconds(90);
  trial.start_deadline = Seconds(3600);
  const EndReason end = failure_reason(trial, cause, exit_code, memory);
  EXPECT_EQ(end.stopper, cause == Cause::stopped && exit_code ? Stopper::outside : Stopper::none);
  return end.reason;
}

TEST(FailureReason, TheReasonNamesTheExitCodeAndItsSignal) {
  EXPECT_EQ(reason_of(Cause::error, 1), "exit code 1");
  EXPECT_EQ(reason_of(Cause::error, 139), "exit code 139, SIGSEGV");
  EXPECT_EQ(reason_of(Cause::error, 128), "exit code 128");
  EXPECT_EQ(reason_of(Cause::error, 138), "exit code 138") << "a signal that is not named";
  EXPECT_EQ(reason_of(Cause::none, std::nullopt), "exit code not known");
}

TEST(FailureReason, TheReasonNamesTheLimitThatWasExceeded) {
  EXPECT_EQ(reason_of(Cause::oom, 137, {512LL << 20}), "out of memory at 512 MiB (exit code 137, SIGKILL)");
  EXPECT_EQ(reason_of(Cause::oom, 1), "out of memory (exit code 1)");
  EXPECT_EQ(reason_of(Cause::timeout, 143), "took longer than its timeout of 1m30s");
  EXPECT_EQ(reason_of(Cause::start_deadline, std::nullopt), "did not run within its start_deadline of 1h00m");
}

TEST(FailureReason, TheReasonNamesOtherCausesOfTheEnd) {
  EXPECT_EQ(reason_of(Cause::host_lost, 255), "lost with its host or engine (exit code 255)");
  EXPECT_EQ(reason_of(Cause::host_lost, std::nullopt), "lost with its host or engine (exit code not known)");
  EXPECT_EQ(reason_of(Cause::start, std::nullopt), "could not be started");
  EXPECT_EQ(reason_of(Cause::outputs, 0), "did not write its outputs");
  EXPECT_EQ(reason_of(Cause::stopped, 143), "from outside (exit code 143, SIGTERM)");
  EXPECT_EQ(reason_of(Cause::stopped, std::nullopt), "the container was removed while the attempt ran");
}

// ---- stopped_by, text_of

TEST(StoppedBy, TheReasonNamesThePerson) {
  const EndReason end = stopped_by("ada");
  EXPECT_EQ(end.reason, "by ada with `combu stop`");
  EXPECT_EQ(end.stopper, Stopper::person);
}

TEST(TextOfAnEnd, TheTextBeginsWithWhoStoppedTheAttempt) {
  EXPECT_EQ(text_of(stopped_by("ada")), "stopped by ada with `combu stop`");
  EXPECT_EQ(text_of({"from outside (exit code 137, SIGKILL)", Stopper::outside}),
            "stopped from outside (exit code 137, SIGKILL)");
  EXPECT_EQ(text_of({"the run's deadline", Stopper::run}), "stopped: the run's deadline");
  EXPECT_EQ(text_of({"exit code 1"}), "exit code 1");
}

// ---- pause_after

TEST(PauseAfter, ThePauseGrowsByItsFactorUpToItsMaximum) {
  const Retries retries{.pause = Seconds(2), .factor = 3, .pause_max = Seconds(50)};
  EXPECT_EQ(pause_after(retries, 1), Seconds(2));
  EXPECT_EQ(pause_after(retries, 2), Seconds(6));
  EXPECT_EQ(pause_after(retries, 3), Seconds(18));
  EXPECT_EQ(pause_after(retries, 4), Seconds(50));
  EXPECT_EQ(pause_after(retries, 100'000), Seconds(50)) << "the power is infinite";
  EXPECT_EQ(pause_after(retries, 0), Seconds(2)) << "after a lost host, which does not count";
}

TEST(PauseAfter, ThePauseStaysTheSameWithAFactorOfOne) {
  const Retries retries{.pause = Seconds(5), .factor = 1};
  EXPECT_EQ(pause_after(retries, 1), Seconds(5));
  EXPECT_EQ(pause_after(retries, 9), Seconds(5));
}

TEST(PauseAfter, ThePauseIsZeroIfNoneIsGiven) {
  EXPECT_EQ(pause_after({.pause = Seconds(0)}, 100'000), Seconds(0)) << "and not 0 times an infinite power";
}

}  // namespace
}  // namespace combu::schedule
