// The planner: engines that accept a start and place the attempt later.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedule_planned.hpp"

namespace combu::test {
namespace {

TEST(Pending, AnAcceptedAttemptStaysStartingUntilItRuns) {
  Planned it("a b<-a:started");
  (void)it.begin();
  EXPECT_EQ(it.queued("a"), " | ");
  EXPECT_EQ(it.in_flight(), 0U);
  EXPECT_EQ(it.seen(it.observation("a", Phase::pending)), " | ");
  EXPECT_EQ(it.running("a"), "start b | a running, b starting");
}

TEST(Pending, AnObservationMayPrecedeTheAnswer) {
  Planned it("a");
  (void)it.begin();
  EXPECT_EQ(it.seen(it.observation("a", Phase::pending)), " | ");
  EXPECT_EQ(it.running("a"), " | a running");
  EXPECT_EQ(it.queued("a"), " | ");
  EXPECT_EQ(it.ended("a", 0), " | a succeeded");
}

TEST(Pending, AStartThatAnEarlierProcessHasNotCompletedIsRepeated) {
  Planned it("a", {.restored = {{.state = TrialState::starting, .attempt = 1}}});
  (void)it.begin();
  (void)it.listing_begins();
  Observation pending = it.observation("a", Phase::pending);
  pending.placement.awaits_delivery = true;
  EXPECT_EQ(it.listed({pending}), " | ");
  EXPECT_FALSE(it.done()) << "the program may wait for this process";
  EXPECT_EQ(it.seen(it.observation("a", Phase::created)), "start a | a ready, a starting");
  EXPECT_EQ(it.seen(it.observation("a", Phase::created)), " | ") << "the start is in flight";
  (void)it.queued("a");
  EXPECT_EQ(it.seen(it.observation("a", Phase::created)), " | ") << "the report is late";
  EXPECT_EQ(it.running("a"), " | a running");
}

TEST(Pending, AnAttemptThatReceivesItsInputsKeepsTheRun) {
  combu::Experiment experiment = test::experiment("a");
  experiment.trials[0].inputs = {Input{.from = "/in", .to = "/in"}};
  Planned it(std::move(experiment));
  (void)it.begin();
  (void)it.queued("a");
  EXPECT_FALSE(it.done());
  (void)it.running("a");
  EXPECT_TRUE(it.done());
}

TEST(Pending, WithoutWaitTheRunEndsWhenEveryTrialIsAccepted) {
  Planned it("a b");
  (void)it.begin();
  (void)it.queued("a");
  EXPECT_FALSE(it.done());
  (void)it.queued("b");
  EXPECT_TRUE(it.done());
}

TEST(Pending, APendingTrialThatOthersDependOnKeepsTheRun) {
  Planned it("a b<-a:started");
  (void)it.begin();
  (void)it.queued("a");
  EXPECT_FALSE(it.done());
  (void)it.running("a");
  (void)it.queued("b");
  EXPECT_TRUE(it.done());
}

TEST(Pending, APendingTrialWithAStartDeadlineKeepsTheRun) {
  Planned it(with_start_deadline(test::experiment("a"), Seconds(10)));
  (void)it.begin();
  (void)it.queued("a");
  EXPECT_FALSE(it.done());
  (void)it.running("a");
  EXPECT_TRUE(it.done());
}

TEST(Pending, WithWaitTheRunAwaitsPendingTrials) {
  Planned it("a", {.until = Until::ended});
  (void)it.begin();
  (void)it.queued("a");
  EXPECT_FALSE(it.done());
  EXPECT_TRUE(it.may_start_more());
}

TEST(Pending, AtMostThisManyAttemptsWaitOnTheEngine) {
  Planned it("a b c d", {.pending_max = 2});
  EXPECT_EQ(it.begin(), "start a, start b | a starting, b starting");
  EXPECT_EQ(it.queued("a"), " | ");
  EXPECT_EQ(it.running("a"), "start c | a running, c starting") << "b is in flight and counts";
  EXPECT_EQ(it.queued("b"), " | ");
  EXPECT_EQ(it.running("b"), "start d | b running, d starting");
}

TEST(Pending, AnAttemptThatHasAHostDoesNotWaitForAPlace) {
  Planned it("a b c d", {.pending_max = 1});
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_EQ(it.queued("a"), " | ");
  Observation placed = it.observation("a", Phase::pending);
  EXPECT_EQ(it.seen(placed), " | ");
  placed.placement.host = "node-1";
  EXPECT_EQ(it.seen(placed), "start b | b starting");
  EXPECT_EQ(it.seen(placed), " | ") << "it counts once";
  EXPECT_EQ(it.running("a"), " | a running");
  EXPECT_EQ(it.queued("b"), " | ");
  EXPECT_EQ(it.running("b"), "start c | b running, c starting")
      << "an attempt may run without a report of its host";
}

TEST(Pending, AnAttemptThatTheEngineCannotStartFailsAsAFailedStart) {
  Planned it("a");
  (void)it.begin();
  (void)it.queued("a");
  Observation ended = it.observation("a", Phase::ended);
  ended.placement.start_error = "no such image";
  EXPECT_EQ(it.seen(ended), " | a failed (could not be started: no such image)");
  EXPECT_EQ(it.fact("a").cause, Cause::start);
  EXPECT_FALSE(it.fact("a").ran);
}

// Otherwise trials that depend on its start would start.
TEST(Pending, AnAttemptThatIsLostOrStoppedBeforeItRanHasNotBegun) {
  Planned lost("a b<-a:started");
  (void)lost.begin();
  (void)lost.queued("a");
  Observation end = lost.observation("a", Phase::ended);
  end.lost = "the pod was deleted";
  EXPECT_EQ(lost.seen(end),
            " | a failed (the pod was deleted), b blocked (depends on `a`, which was not started)");
  EXPECT_EQ(lost.fact("a").cause, Cause::host_lost);
  Planned stopped("a b<-a:started");
  (void)stopped.begin();
  (void)stopped.queued("a");
  end.lost.clear();
  end.stopped = true;
  EXPECT_EQ(stopped.seen(end),
            " | a stopped (the container was removed while the attempt ran), b blocked (depends on `a`, "
            "which was not started)");
}

TEST(Pending, APendingAttemptThatIsRemovedIsStopped) {
  Planned it("a");
  (void)it.begin();
  (void)it.queued("a");
  EXPECT_EQ(it.gone("a"), " | a stopped (the container was removed while the attempt ran)");
}

TEST(Pending, AStartInFlightMayRemoveAnEarlierAttempt) {
  Planned it("a");
  (void)it.begin();
  EXPECT_EQ(it.gone("a"), " | ");
  EXPECT_EQ(it.queued("a"), " | ");
  EXPECT_EQ(it.running("a"), " | a running");
}

TEST(Pending, AListingThatBeganAfterTheAnswerMustContainTheAttempt) {
  Planned it("a b");
  (void)it.begin();
  (void)it.queued("a");
  (void)it.listing_begins();
  (void)it.queued("b");
  EXPECT_EQ(it.listed({}), " | a stopped (the container was removed while the attempt ran)");
  EXPECT_EQ(it.state("b"), TrialState::starting) << "the listing may be older than the attempt";
}

TEST(Pending, WithoutRoomTheTrialWaitsAndTriesAgain) {
  Planned it("a b");
  (void)it.begin();
  EXPECT_EQ(it.without_room("a", Seconds(5)), " | a ready");
  EXPECT_EQ(it.queued("b"), " | ");
  EXPECT_EQ(it.pass(4), " | ");
  EXPECT_EQ(it.pass(2), "start a | a starting");
}

TEST(Pending, WhenTheQuotaIsUsedUpNoTrialStartsBeforeAnAttemptEnds) {
  Planned it("a b c", {.starts_in_flight_max = 1});
  (void)it.begin();
  EXPECT_EQ(it.queued("a"), "start b | b starting");
  EXPECT_EQ(it.running("a"), " | a running");
  EXPECT_EQ(it.without_room("b", Seconds(5)), " | b ready");
  EXPECT_EQ(it.pass(1), " | ");
  EXPECT_EQ(it.ended("a", 0), "start b | a succeeded, b starting");
}

TEST(Pending, WhenTheQuotaIsUsedUpOneStartTriesAtATime) {
  Planned it("a b c d");
  EXPECT_EQ(it.begin(),
            "start a, start b, start c, start d | a starting, b starting, c starting, d starting");
  for (const char* name : {"a", "b", "c", "d"})
    EXPECT_EQ(it.without_room(name, Seconds(5)), fmt::format(" | {} ready", name));
  EXPECT_EQ(it.pass(6), "start a | a starting");
  EXPECT_EQ(it.without_room("a", Seconds(5)), " | a ready");
  EXPECT_EQ(it.pass(6), "start b | b starting") << "the quota may have room for another trial";
  EXPECT_EQ(it.queued("b"), "start c, start d | c starting, d starting");
}

TEST(Pending, AStartDeadlineCountsFromTheFirstStart) {
  Planned it(with_start_deadline(test::experiment("a"), Seconds(10)));
  (void)it.begin();
  (void)it.without_room("a", Seconds(4));
  EXPECT_EQ(it.pass(4), "start a | a starting");
  (void)it.queued("a");
  EXPECT_EQ(it.pass(6), "stop a | a starting (start_deadline)");
}

TEST(Pending, ATrialWithoutRoomFailsAtItsStartDeadline) {
  Planned it(with_start_deadline(test::experiment("a"), Seconds(10)));
  (void)it.begin();
  (void)it.without_room("a", Seconds(4));
  EXPECT_EQ(it.pass(4), "start a | a starting");
  (void)it.without_room("a", Seconds(20));
  EXPECT_EQ(it.pass(6), " | a failed (did not run within its start_deadline of 10.0 s)");
  EXPECT_EQ(it.fact("a").cause, Cause::start_deadline);
  EXPECT_EQ(it.pass(60), " | ");
  EXPECT_TRUE(it.done());
}

TEST(Pending, AStartDeadlineStopsAPendingAttempt) {
  Planned it(with_start_deadline(test::experiment("a"), Seconds(10)));
  (void)it.begin();
  (void)it.queued("a");
  EXPECT_EQ(it.pass(11), "stop a | a starting (start_deadline)");
  EXPECT_EQ(it.stopped("a"), " | a failed (did not run within its start_deadline of 10.0 s)");
}

TEST(Pending, AnAttemptOfAnEarlierProcessStaysPending) {
  Planned it("a b", {.restored = {{.state = TrialState::starting}, {.state = TrialState::starting}}});
  EXPECT_EQ(it.begin(), " | ");
  (void)it.listing_begins();
  EXPECT_EQ(it.listed({it.observation("a", Phase::pending)}), "start b | b ready, b starting")
      << "the start of b has not reached the engine";
  EXPECT_EQ(it.running("a"), " | a running");
}

TEST(Pending, AStartThatTheRecordLacksIsReported) {
  Planned it("a", {.restored = {{}}});
  EXPECT_EQ(it.found({it.observation("a", Phase::pending)}), " | a starting");
  EXPECT_EQ(it.begin(), " | ");
  EXPECT_EQ(it.listed({it.observation("a", Phase::pending)}), " | ");
  EXPECT_EQ(it.running("a"), " | a running");
}

}  // namespace
}  // namespace combu::test
