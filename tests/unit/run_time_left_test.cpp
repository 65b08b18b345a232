#include <gtest/gtest.h>

#include "run/time_left.hpp"

namespace combu {
namespace {

// Twelve trials of ten seconds, four at a time: eight are over after 20 s.
WorkDone two_thirds() {
  return {.ended = 8, .ended_took = Seconds(80), .worked = Seconds(20), .ages = {}, .not_begun = 4};
}

TEST(TimeLeft, AssumesThePaceSoFarForTrialsThatHaveNotBegun) {
  EXPECT_DOUBLE_EQ(time_left(two_thirds())->count(), 10);
}

TEST(TimeLeft, OnlyTheRemainderOfARunningTrialCounts) {
  WorkDone work = two_thirds();
  work.not_begun = 0;
  work.since_end = Seconds(4);
  work.ages.assign(4, Seconds(4));
  EXPECT_DOUBLE_EQ(time_left(work)->count(), 6);
  work.ages = {Seconds(1)};
  EXPECT_DOUBLE_EQ(time_left(work)->count(), 9) << "no sooner than the last of them";
}

TEST(TimeLeft, IsKnownOnceSomeTrialsHaveEnded) {
  WorkDone work{
      .ended = k_ended_min - 1, .ended_took = Seconds(9), .worked = Seconds(9), .ages = {}, .not_begun = 5};
  EXPECT_FALSE(time_left(work));
  ++work.ended;
  EXPECT_TRUE(time_left(work));
}

TEST(TimeLeft, CountsTheTrialsThatRanAtTheLastEnd) {
  // Ten at a time: the first three are over, and the others end soon.
  WorkDone work{.ended = 3, .ended_took = Seconds(30), .worked = Seconds(10), .ages = {}, .not_begun = 87};
  work.ages.assign(7, Seconds(10));
  work.ages.resize(10);
  EXPECT_DOUBLE_EQ(time_left(work)->count(), 90);
}

TEST(TimeLeft, IsUnknownIfOnlyOverdueTrialsAreLeft) {
  WorkDone work = two_thirds();
  work.not_begun = 0;
  work.ages = {Seconds(10), Seconds(500)};
  EXPECT_FALSE(time_left(work));
}

// The last trial hangs from second 10 on, and other trials follow while there are any.
TEST(TimeLeft, DoesNotGrowWhileOneTrialHangs) {
  for (const std::size_t not_begun : {0U, 1U, 20U}) {
    WorkDone work = two_thirds();
    work.not_begun = not_begun;
    work.ages = {Seconds(10)};
    std::optional<Seconds> before;
    for (int second = 0; second < 10'000; ++second) {
      work.since_end = Seconds(second);
      work.ages[0] = Seconds(10 + second);
      const std::optional<Seconds> left = time_left(work);
      EXPECT_EQ(left.has_value(), not_begun > 0);
      if (before) {
        EXPECT_LE(*left, *before) << second;
      }
      before = left;
    }
  }
}

TEST(TimeLeft, DoesNotGrowBetweenTwoEnds) {
  WorkDone work = two_thirds();
  work.ages = {Seconds(2), Seconds(700)};
  Seconds before = *time_left(work);
  for (int second = 1; second < 30; ++second) {
    work.since_end += Seconds(1);
    for (Seconds& age : work.ages) age += Seconds(1);
    if (second % 3 == 0 && work.not_begun > 0) {
      --work.not_begun;
      work.ages.push_back(Seconds(0));
    }
    const std::optional<Seconds> left = time_left(work);
    if (!left) break;
    EXPECT_LE(*left, before) << second;
    before = *left;
  }
  EXPECT_LT(before, Seconds(3)) << "it comes down to the end";
}

TEST(TimeLeft, AHangingTrialOfAnEarlierProcessDoesNotLowerTheEstimate) {
  WorkDone work = two_thirds();
  const Seconds without = *time_left(work);
  work.ages = {Seconds(100'000)};
  EXPECT_GT(time_left(work)->count(), without.count() * 0.8);
}

}  // namespace
}  // namespace combu
