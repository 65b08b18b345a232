// Changes of a run that no process drives.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "combu/schedule.hpp"
#include "experiments.hpp"

namespace combu::test {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr Instant k_now{seconds(1'800'000'000)};
constexpr Instant k_ran_at = k_now - seconds(100);
constexpr Instant k_ended_at = k_now - seconds(40);
constexpr Instant k_engine_began_at = k_now - seconds(1000);

class Unwatched : public testing::Test {
 protected:
  static Observation observation(const std::string& trial, Phase phase, int attempt = 1) {
    Observation seen{.key = {.run = RunId("r1"), .trial = trial, .attempt = attempt},
                     .experiment = "test",
                     .id = trial + "-container",
                     .phase = phase};
    seen.created_at = seen.ran_at.emplace(k_ran_at);
    return seen;
  }
  static Observation ended(const std::string& trial, int exit_code, int attempt = 1) {
    Observation seen = observation(trial, Phase::ended, attempt);
    seen.ended_at = k_ended_at;
    seen.exit_code = exit_code;
    return seen;
  }
  static RestoredTrial running() {
    return {.state = TrialState::running, .was_started = true, .ran_at = k_ran_at};
  }

  // The engine lists all of `seen`.
  [[nodiscard]] std::vector<Fact> reconcile(const std::vector<Observation>& seen,
                                            Unattended more = {}) const {
    more.listed = seen;
    for (const Observation& one : seen)
      if (one.phase != Phase::created) more.changed.push_back(one);
    more.engine_began_at = k_engine_began_at;
    return combu::reconcile(RunId("r1"), experiment, plan(experiment), restored, more, k_now);
  }
  // Returns texts like "a succeeded, b blocked (…)".
  [[nodiscard]] std::vector<std::string> texts(const std::vector<Fact>& facts) const {
    std::vector<std::string> texts;
    for (const Fact& fact : facts) {
      const std::string reason = reason_text(fact);
      texts.push_back(experiment.trials[fact.trial].name + " " + std::string(to_string(fact.state)) +
                      (reason.empty() ? "" : " (" + reason + ")"));
    }
    return texts;
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Trial& trial : experiment.trials) names.push_back(trial.name);
    return names;
  }

  Experiment experiment = test::experiment("a b<-a:succeeded");
  std::vector<RestoredTrial> restored{running(), {}};
};

TEST_F(Unwatched, EndsHaveTheTimesOfTheEngine) {
  const std::vector<Fact> facts = reconcile({ended("a", 0)});
  EXPECT_THAT(texts(facts), ElementsAre("a succeeded"));
  EXPECT_EQ(facts[0].at, k_ended_at);
}

TEST_F(Unwatched, FailuresBlockOtherTrials) {
  const std::vector<Fact> facts = reconcile({ended("a", 3)});
  EXPECT_THAT(texts(facts),
              ElementsAre("a failed (exit code 3)", "b blocked (depends on `a`, which did not succeed)"));
  EXPECT_EQ(facts[1].root, 0U);
  EXPECT_TRUE(are_all_over(restored, facts));
}

TEST_F(Unwatched, ATimeOutsideOfTheAttemptIsLimited) {
  Observation early = ended("a", 0);
  early.ended_at = k_ran_at - seconds(10);
  EXPECT_EQ(reconcile({early}).at(0).at, k_ran_at);
  Observation late = ended("a", 0);
  late.ended_at = k_now + seconds(10);
  EXPECT_EQ(reconcile({late}).at(0).at, k_now);
}

TEST_F(Unwatched, AMissingContainerHasAnUnknownEnd) {
  EXPECT_THAT(texts(reconcile({})),
              ElementsAre("a stopped (its container no longer exists, and its end was not recorded)",
                          "b blocked (depends on `a`, which did not succeed)"));
}

TEST_F(Unwatched, RepeatedReconciliationHasNoEffect) {
  EXPECT_THAT(reconcile({observation("a", Phase::running)}), IsEmpty());
  restored[0].state = TrialState::succeeded;
  EXPECT_THAT(reconcile({ended("a", 3)}), IsEmpty());
}

TEST_F(Unwatched, AStartWhoseAnswerIsNotOnRecordIsKnownByItsContainer) {
  restored[0] = {.state = TrialState::starting};
  const std::vector<Fact> facts = reconcile({ended("a", 0)});
  EXPECT_THAT(texts(facts), ElementsAre("a running", "a succeeded"));
  EXPECT_EQ(facts[0].at, k_ran_at);
  EXPECT_THAT(texts(reconcile({})), ElementsAre("a ready")) << "no container: it was not started";
}

TEST_F(Unwatched, AStartThatIsNotOnRecordIsKnownByItsContainer) {
  restored[0] = {};
  EXPECT_THAT(texts(reconcile({observation("a", Phase::running)})), ElementsAre("a starting", "a running"));
  EXPECT_THAT(texts(reconcile({observation("a", Phase::created)})), IsEmpty());
  Observation of_other_run = observation("a", Phase::running);
  of_other_run.key.run = RunId("r2");
  EXPECT_THAT(texts(reconcile({of_other_run})), IsEmpty());
  restored[0].attempt = 2;
  EXPECT_THAT(texts(reconcile({ended("a", 3)})), IsEmpty()) << "the container is of an earlier attempt";
}

TEST_F(Unwatched, ADependentThatWasStartedIsNotBlocked) {
  experiment = test::experiment("a b<-a:healthy");
  restored = {{}, {}};
  EXPECT_THAT(texts(reconcile({ended("a", 3), observation("b", Phase::running)})),
              ElementsAre("a starting", "b starting", "a running", "a failed (exit code 3)", "b running"));
}

TEST_F(Unwatched, ARetryThatIsNotOnRecordIsKnownByItsContainer) {
  const std::vector<Fact> facts = reconcile({observation("a", Phase::running, 2)});
  EXPECT_THAT(texts(facts),
              ElementsAre("a retrying (the attempt's end was not recorded)", "a starting", "a running"));
  EXPECT_EQ(facts[2].attempt, 2);
}

TEST_F(Unwatched, AFailureWithRetriesWaitsForTheNextProcess) {
  experiment.trials[0].retries.max = 1;
  experiment.trials[0].retries.on.set(static_cast<std::size_t>(Cause::error));
  EXPECT_THAT(texts(reconcile({ended("a", 3)})), ElementsAre("a retrying (exit code 3; attempt 2 in 1.0 s)"));
  EXPECT_THAT(texts(reconcile({ended("a", 3)}, {.is_final = true})),
              ElementsAre("a failed (exit code 3)", "b blocked (depends on `a`, which did not succeed)"));
}

TEST_F(Unwatched, TheReasonNamesTheCallerOfAStop) {
  Observation stopped = ended("a", 143);
  EXPECT_THAT(texts(reconcile({stopped}, {.stopped = {"a"}, .stopper = "alice"}))[0],
              "a stopped (stopped by alice with `combu stop`)");
}

TEST_F(Unwatched, ASignalIsALostHostIfTheEngineRestarted) {
  Observation killed = ended("a", 137);
  EXPECT_THAT(texts(reconcile({killed}))[0], "a failed (exit code 137, SIGKILL)");
  killed.ran_at = restored[0].ran_at = k_engine_began_at - seconds(1);
  EXPECT_THAT(texts(reconcile({killed}))[0],
              "a failed (lost with its host or engine (exit code 137, SIGKILL))");
}

TEST_F(Unwatched, RemovedTrialsAreStoppedAndReopenedTrialsWait) {
  restored = {{.state = TrialState::retrying, .cause = Cause::error, .exit_code = 3, .was_started = true},
              {.state = TrialState::blocked, .root = 0}};
  const std::vector<Fact> facts =
      facts_of_edits(RunId("r1"), restored, {.removed = {0}, .reopened = {1}}, k_now);
  EXPECT_THAT(texts(facts),
              ElementsAre("a stopped (" + std::string(reason_of(Departure::removed)) + ")", "b waiting"));
  EXPECT_FALSE(facts[0].is_reset);
  EXPECT_TRUE(facts[1].is_reset);
  EXPECT_THAT(facts_of_edits(RunId("r1"), restored, {}, k_now), IsEmpty());
}

TEST_F(Unwatched, AMissingContainerIsReportedInsteadOfTheDeadline) {
  restored[0].stop_cause = Cause::stopped;
  EXPECT_THAT(texts(reconcile({}))[0],
              "a stopped (its container no longer exists, and its end was not recorded)");
}

TEST_F(Unwatched, AttemptsThatAreNotOnRecordHaveTheTimesOfTheEngine) {
  Observation second = ended("a", 0, 2);
  second.created_at = k_now - seconds(90);
  second.ran_at = k_now - seconds(80);
  std::vector<Instant> times;
  for (const Fact& fact : reconcile({second})) times.push_back(fact.at);
  EXPECT_THAT(times, ElementsAre(second.created_at, second.created_at, *second.ran_at, k_ended_at));
}

TEST_F(Unwatched, WithoutARecordTheEndFollowsFromTheContainer) {
  EXPECT_EQ(end_of_unrecorded(ended("a", 0)).value().state, TrialState::succeeded);
  EXPECT_EQ(end_of_unrecorded(ended("a", 3)).value().reason, "exit code 3");
  EXPECT_EQ(end_of_unrecorded(observation("a", Phase::gone)).value().reason,
            "its container no longer exists, and its end was not recorded");
  EXPECT_FALSE(end_of_unrecorded(observation("a", Phase::running)));
  EXPECT_FALSE(end_of_unrecorded(observation("a", Phase::created)));
}

TEST_F(Unwatched, AContainerShowsTheStateOfItsTrial) {
  EXPECT_EQ(state_of(observation("a", Phase::created)), TrialState::starting);
  EXPECT_EQ(state_of(observation("a", Phase::running)), TrialState::running);
  EXPECT_EQ(state_of(ended("a", 0)), TrialState::succeeded);
  EXPECT_EQ(state_of(ended("a", 1)), TrialState::failed);
}

TEST_F(Unwatched, AKillDoesNotEndTheKeptTrials) {
  const std::vector<std::string> kept{"a"};
  const std::vector<Fact> facts = facts_of_kill(RunId("r1"), names(), restored, kept, k_now);
  EXPECT_THAT(texts(facts), ElementsAre("b blocked (not started: the run was killed)"));
  EXPECT_FALSE(are_all_over(restored, facts));
  EXPECT_TRUE(are_all_over(restored, facts_of_kill(RunId("r1"), names(), restored, {}, k_now)));
}

TEST_F(Unwatched, AllAreOverOnlyAfterTheLastEnd) {
  restored = {running(), {.state = TrialState::succeeded}};
  EXPECT_FALSE(are_all_over(restored, {}));
  const std::vector<Fact> healthy{{.trial = 1, .state = TrialState::running, .healthy = true}};
  EXPECT_FALSE(are_all_over(restored, healthy));
  const std::vector<Fact> end{{.trial = 0, .state = TrialState::failed}};
  EXPECT_TRUE(are_all_over(restored, end));
  EXPECT_TRUE(are_all_over({}, {}));
}

class LastCollectionTest : public Unwatched {
 protected:
  LastCollectionTest() {
    for (Trial& trial : experiment.trials) trial.outputs = {Output{.path = "/out"}};
    restored[0] = {.state = TrialState::collecting, .was_started = true, .ran_at = k_ran_at};
  }
  [[nodiscard]] std::vector<std::string> after(Collected answer) const {
    LastCollection collection(RunId("r1"), experiment, run_plan, restored, k_now);
    EXPECT_EQ(collection.commands().size(), 1U);
    return texts(collection.facts_of(answer, k_now));
  }

  const Plan run_plan = plan(experiment);
};

TEST_F(LastCollectionTest, OnlyCollectingTrialsGetCommands) {
  restored[1] = running();
  const LastCollection collection(RunId("r1"), experiment, run_plan, restored, k_now);
  ASSERT_EQ(collection.commands().size(), 1U);
  EXPECT_EQ(collection.commands()[0].trial, 0U);
  EXPECT_EQ(collection.commands()[0].attempt, 1);
}

TEST_F(LastCollectionTest, DependentsAreNotStarted) {
  EXPECT_THAT(after({.trial = 0}), ElementsAre("a succeeded"));
}

TEST_F(LastCollectionTest, AFailureIsFinal) {
  experiment.trials[0].retries.max = 3;
  experiment.trials[0].retries.on.set();
  EXPECT_THAT(
      after({.trial = 0, .fault = "/out: nothing there", .by_attempt = true}),
      ElementsAre("a failed (/out: nothing there)", "b blocked (depends on `a`, which did not succeed)"));
}

TEST_F(LastCollectionTest, AFailureOfTheDestinationIsRecorded) {
  EXPECT_THAT(after({.trial = 0, .fault = "disk full"}),
              ElementsAre("a collecting (its outputs are not collected yet: disk full)"));
}

}  // namespace
}  // namespace combu::test
