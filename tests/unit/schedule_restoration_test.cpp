// Tests of Restoration alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "schedule/restoration.hpp"
#include "schedule/trial_table.hpp"
#include "schedule_trials.hpp"

namespace combu::schedule {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Restoration::Way way_of(const RestoredTrial& restored, bool may_retry_stopped = false,
                        std::optional<Instant> engine_began_at = std::nullopt) {
  return Restoration({restored}, engine_began_at).way(0, may_retry_stopped);
}

TEST(Restoration, TheWayFollowsFromTheState) {
  using Way = Restoration::Way;
  EXPECT_EQ(way_of({.state = TrialState::waiting}), Way::waits);
  EXPECT_EQ(way_of({.state = TrialState::starting}), Way::lives);
  EXPECT_EQ(way_of({.state = TrialState::running}), Way::lives);
  EXPECT_EQ(way_of({.state = TrialState::running, .departure = Departure::removed}), Way::departs);
  EXPECT_EQ(way_of({.state = TrialState::retrying, .cause = Cause::error}), Way::retries);
  EXPECT_EQ(way_of({.state = TrialState::ready, .cause = Cause::error}), Way::retries);
  EXPECT_EQ(way_of({.state = TrialState::collecting}), Way::collects);
  EXPECT_EQ(way_of({.state = TrialState::blocked}), Way::is_over);
}

TEST(Restoration, AStoppedAttemptIsLostOnlyIfTheEngineBeganLater) {
  using std::chrono::seconds;
  const RestoredTrial restored{.state = TrialState::retrying, .cause = Cause::stopped, .ran_at = k_step_at};
  EXPECT_EQ(way_of(restored, false, k_step_at + seconds(1)), Restoration::Way::retries);
  EXPECT_EQ(way_of(restored, false, k_step_at - seconds(1)), Restoration::Way::fails);
  EXPECT_EQ(way_of(restored, true, k_step_at - seconds(1)), Restoration::Way::retries);
  EXPECT_EQ(Restoration({restored}, {}).retry_cause(0, false), Cause::host_lost);
  EXPECT_EQ(Restoration({restored}, {}).retry_cause(0, true), Cause::stopped);
}

TEST(Restoration, AWaitingTrialWithAnAttemptWasStarted) {
  const auto seen = [](Phase phase, int attempt) {
    return Observation{.key = {.run = RunId("r1"), .trial = "a", .attempt = attempt}, .phase = phase};
  };
  Restoration restoration({{.attempt = 2}, {.state = TrialState::retrying}}, {});
  EXPECT_FALSE(restoration.add_start(0, seen(Phase::created, 2)));
  EXPECT_FALSE(restoration.add_start(0, seen(Phase::ended, 1))) << "that is an earlier attempt";
  EXPECT_FALSE(restoration.add_start(1, seen(Phase::running, 1)));
  EXPECT_TRUE(restoration.add_start(0, seen(Phase::running, 3)));
  EXPECT_EQ(restoration.restored(0).state, TrialState::starting);
  EXPECT_EQ(restoration.restored(0).attempt, 3);
  EXPECT_FALSE(Restoration({}, {}).add_start(0, seen(Phase::running, 1))) << "the run begins";
}

TEST(Restoration, TheReasonIsRestoredFromTheAttemptsEnd) {
  const Restoration restoration({{.state = TrialState::retrying,
                                  .cause = Cause::stopped,
                                  .reason = "by alice",
                                  .details = {.stopper = Stopper::person,
                                              .outputs_fault = "none",
                                              .next = Next::attempt,
                                              .pause = Seconds(5)}},
                                 {.state = TrialState::collecting,
                                  .cause = Cause::error,
                                  .exit_code = 1,
                                  .reason = "exit code 1",
                                  .details = {.next = Next::collect, .next_why = "disk full"}},
                                 {.state = TrialState::collecting}},
                                {});
  const AttemptEnd last = restoration.last_end(0);
  EXPECT_EQ(last.reason, "by alice");
  EXPECT_EQ(details_of(last), (EndDetails{.stopper = Stopper::person, .outputs_fault = "none"}));
  EXPECT_EQ(restoration.end_of(1, false).reason, "exit code 1");
  EXPECT_EQ(restoration.end_of(1, false).as, TrialState::failed);
  EXPECT_EQ(restoration.end_of(2, false).as, TrialState::succeeded);
  EXPECT_EQ(restoration.end_of(2, true).as, TrialState::stopped);
}

TEST(Restoration, DependenciesAreMetAtTheLatestOfTheirTimes) {
  using std::chrono::seconds;
  const Restoration restoration(
      {{.state = TrialState::succeeded, .over_at = k_step_at - seconds(30)},
       {.state = TrialState::running, .ran_at = k_step_at - seconds(20)},
       {.state = TrialState::running, .was_healthy = true, .ran_at = k_step_at - seconds(50)},
       {}},
      {});
  const Plan::Node node{.needs = {{.trial = 0, .condition = Condition::succeeded},
                                  {.trial = 1, .condition = Condition::started}},
                        .needed_by = {}};
  EXPECT_EQ(restoration.met_at(node, k_step_at), k_step_at - seconds(20));
  const Plan::Node healthy{.needs = {{.trial = 2, .condition = Condition::healthy}}, .needed_by = {}};
  EXPECT_EQ(restoration.met_at(healthy, k_step_at), k_step_at) << "the record does not say when";
}

TEST(Restoration, NothingStartsUntilTheFirstListing) {
  Restoration restoration({{.state = TrialState::starting}}, {});
  EXPECT_TRUE(restoration.is_needed());
  EXPECT_TRUE(restoration.has_begun(0));
  EXPECT_FALSE(restoration.awaits_listing());
  restoration.begin();
  EXPECT_TRUE(restoration.is_restoring());
  restoration.add_unsure(0);
  restoration.end();
  EXPECT_FALSE(restoration.is_restoring());
  EXPECT_TRUE(restoration.awaits_listing());
  EXPECT_THAT(restoration.listed(), ElementsAre(0));
  EXPECT_FALSE(restoration.awaits_listing());
  EXPECT_THAT(restoration.listed(), IsEmpty());
  EXPECT_FALSE(Restoration({}, {}).has_begun(0));
}

}  // namespace
}  // namespace combu::schedule
