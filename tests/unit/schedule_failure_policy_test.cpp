// Tests of FailurePolicy alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments.hpp"
#include "schedule/failure_policy.hpp"
#include "schedule/trial_table.hpp"
#include "schedule_trials.hpp"

namespace combu::schedule {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Experiment with_retries(int max) {
  Experiment experiment = test::experiment("a b c");
  for (Trial& trial : experiment.trials) {
    trial.retries.max = max;
    trial.retries.on.set();
  }
  return experiment;
}

TEST(FailurePolicy, RetriesUntilTheRetriesAreSpent) {
  const Trials it(with_retries(2));
  FailurePolicy failures(it.experiment, it.table);
  EXPECT_TRUE(failures.may_retry(0, Cause::error));
  failures.count(0, Cause::error);
  failures.count(0, Cause::error);
  EXPECT_FALSE(failures.may_retry(0, Cause::error));
  EXPECT_TRUE(failures.may_retry(0, Cause::host_lost)) << "a lost host spends no retries";
  EXPECT_TRUE(failures.may_retry(1, Cause::error));
  failures.reset(0);
  EXPECT_TRUE(failures.may_retry(0, Cause::error));
}

TEST(FailurePolicy, LossesHaveALimitOfTheirOwn) {
  const Trials it(with_retries(1));
  FailurePolicy failures(it.experiment, it.table);
  for (int i = 0; i < Planner::k_losses_max; ++i) {
    EXPECT_TRUE(failures.may_retry(0, Cause::host_lost)) << i;
    failures.count(0, Cause::host_lost);
  }
  EXPECT_FALSE(failures.may_retry(0, Cause::host_lost));
  EXPECT_EQ(failures.pause(0, Cause::host_lost), Seconds(0));
}

TEST(FailurePolicy, NothingIsRetriedAfterAHaltOrTheEndOfRetries) {
  const Trials it(with_retries(1));
  FailurePolicy halted(it.experiment, it.table);
  halted.halt("why");
  EXPECT_FALSE(halted.may_retry(0, Cause::error));
  EXPECT_EQ(text_of(halted.stop_cause_reason(0, Cause::stopped)), "stopped: why");
  FailurePolicy ended(it.experiment, it.table);
  ended.end_retries();
  EXPECT_FALSE(ended.may_retry(0, Cause::error));
}

TEST(FailurePolicy, AwaitsTheEngineIfItMayHaveStoppedTheAttempt) {
  Experiment experiment = with_retries(1);
  for (Trial& trial : experiment.trials) trial.retries.on.reset(static_cast<std::size_t>(Cause::stopped));
  const Trials it(experiment);
  const FailurePolicy failures(it.experiment, it.table);
  AttemptEnd end{.cause = Cause::stopped, .exit_code = 143, .reason = {}};
  EXPECT_EQ(failures.judge(0, end), FailurePolicy::Verdict::await_engine);
  end.engine = Break::was_not;
  EXPECT_EQ(failures.judge(0, end), FailurePolicy::Verdict::fail);
  end = {.cause = Cause::stopped, .exit_code = std::nullopt, .reason = {}};
  EXPECT_EQ(failures.judge(0, end), FailurePolicy::Verdict::fail) << "its container was removed";
  end.cause = Cause::error;
  EXPECT_EQ(failures.judge(0, end), FailurePolicy::Verdict::retry);
}

TEST(FailurePolicy, OnlyTrialsThatWaitForTheirNextAttemptHaveALastFailure) {
  Trials it(with_retries(1));
  FailurePolicy failures(it.experiment, it.table);
  it.table.set_attempt(0, 2);
  it.report(0, TrialState::retrying);
  EXPECT_EQ(failures.last(0), nullptr);
  failures.remember(0, {.cause = Cause::stopped, .exit_code = 143, .reason = "why"});
  const Fact* last = failures.last(0);
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->state, TrialState::stopped);
  EXPECT_EQ(last->attempt, 2);
  EXPECT_EQ(last->reason, "why");
  it.report(0, TrialState::running);
  EXPECT_EQ(failures.last(0), nullptr);
}

TEST(FailurePolicy, TrialsThatStillAwaitTheEngineAreTakenOnce) {
  Trials it(with_retries(1));
  FailurePolicy failures(it.experiment, it.table);
  it.report(0, TrialState::retrying);
  it.report(1, TrialState::stopped);
  failures.await(0);
  failures.await(1);
  EXPECT_THAT(failures.release_awaiting(), ElementsAre(0));
  EXPECT_THAT(failures.release_awaiting(), IsEmpty());
}

TEST(FailurePolicy, TheReasonNamesWhoStoppedAnAttempt) {
  const Trials it(with_retries(1));
  FailurePolicy failures(it.experiment, it.table);
  EXPECT_EQ(text_of(failures.stop_reason(0, 143)), "stopped from outside (exit code 143, SIGTERM)");
  failures.set_stopper(0, "alice");
  EXPECT_EQ(text_of(failures.stop_reason(0, 143)), "stopped by alice with `combu stop`");
  failures.forget_stopper(0);
  EXPECT_FALSE(failures.has_stopper(0));
}

TEST(FailurePolicy, TheLimitIsReachedAfterFailuresMax) {
  Experiment experiment = with_retries(0);
  experiment.failures_max = 2;
  Trials it(experiment);
  const FailurePolicy failures(it.experiment, it.table);
  it.report(0, TrialState::failed);
  EXPECT_FALSE(failures.limit_reached());
  it.report(1, TrialState::failed);
  EXPECT_EQ(failures.limit_reached(), "2 trials have failed, which is the limit (max_failures)");
}

}  // namespace
}  // namespace combu::schedule
