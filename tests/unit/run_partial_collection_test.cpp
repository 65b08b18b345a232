// The schedule by which outputs of running attempts are collected.

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "run/partial_collection.hpp"

namespace combu {
namespace {

class PartialCollectionTest : public testing::Test {
 protected:
  void pass(Seconds time) { now_ += std::chrono::duration_cast<Instant::duration>(time); }
  std::optional<PartialCollection::Take> next() { return partial_.next(now_); }

  Instant now_{std::chrono::seconds(1'800'000'000)};
  PartialCollection partial_{Seconds(60)};
};

TEST_F(PartialCollectionTest, CollectsAtTheIntervalWhileTheAttemptRuns) {
  partial_.begin(3, 1, now_);
  pass(Seconds(59));
  EXPECT_FALSE(next());
  pass(Seconds(1));
  const auto take = next();
  ASSERT_TRUE(take);
  EXPECT_EQ(take->trial, 3U);
  EXPECT_FALSE(next()) << "it is under way";
  pass(Seconds(90));
  EXPECT_FALSE(next());
  EXPECT_FALSE(partial_.done(3, false, now_).held);
  pass(Seconds(60));
  EXPECT_TRUE(next());
  (void)partial_.done(3, false, now_);
  partial_.end(3);
  pass(Seconds(60));
  EXPECT_FALSE(next());
}

TEST_F(PartialCollectionTest, TheFinalCollectionWaitsForAPartialOne) {
  partial_.begin(0, 1, now_);
  EXPECT_FALSE(partial_.holds_back({.trial = 0, .outputs = true})) << "nothing is under way";
  pass(Seconds(60));
  const auto take = next();
  partial_.end(0);
  EXPECT_TRUE(take->stop.stop_requested());
  ASSERT_TRUE(partial_.holds_back({.trial = 0, .attempt = 1, .outputs = true}));
  const PartialCollection::Done done = partial_.done(0, true, now_);
  ASSERT_TRUE(done.held);
  EXPECT_TRUE(done.held->outputs);
  EXPECT_FALSE(done.is_first_fault) << "it was given up";
}

TEST_F(PartialCollectionTest, AFailureIsReportedOnceAndTriedAgain) {
  partial_.begin(0, 1, now_);
  for (const bool is_first : {true, false, false}) {
    pass(Seconds(60));
    ASSERT_TRUE(next());
    EXPECT_EQ(partial_.done(0, true, now_).is_first_fault, is_first);
  }
}

TEST_F(PartialCollectionTest, TheNextAttemptIsCollectedAfterTheLastCollectionEnds) {
  partial_.begin(0, 1, now_);
  pass(Seconds(60));
  ASSERT_TRUE(next());
  partial_.end(0);
  partial_.begin(0, 2, now_);
  pass(Seconds(60));
  EXPECT_FALSE(next());
  (void)partial_.done(0, true, now_);
  pass(Seconds(60));
  const auto take = next();
  ASSERT_TRUE(take);
  EXPECT_EQ(take->attempt, 2);
}

TEST_F(PartialCollectionTest, LimitsTheNumberOfConcurrentCollections) {
  constexpr TrialIndex k_many = 10;
  for (TrialIndex trial = 0; trial < k_many; ++trial) partial_.begin(trial, 1, now_);
  pass(Seconds(60));
  std::size_t begun = 0;
  while (next()) ++begun;
  EXPECT_EQ(begun, PartialCollection::k_under_way_max);
}

}  // namespace
}  // namespace combu
