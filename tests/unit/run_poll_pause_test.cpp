#include <gtest/gtest.h>

#include "run/poll_pause.hpp"

namespace combu {
namespace {

constexpr Bytes k_little{100};
constexpr Bytes k_much{4 * k_poll_brings_max.count};

TEST(PollPause, GrowsUpToAMinute) {
  Seconds pause{1};
  for (int i = 0; i < 3; ++i) pause = poll_pause(pause, k_little, Seconds(0));
  EXPECT_DOUBLE_EQ(pause.count(), 3.375);
  for (int i = 0; i < 20; ++i) pause = poll_pause(pause, k_little, Seconds(0));
  EXPECT_EQ(pause, k_poll_pause_max);
}

TEST(PollPause, IsShortAfterAPollThatFoundMuchLog) {
  EXPECT_EQ(poll_pause(Seconds(40), k_much, Seconds(0)), Seconds(10))
      << "as long as so much takes to come again";
  EXPECT_EQ(poll_pause(Seconds(1), k_much, Seconds(0)), k_poll_pause_min);
  EXPECT_EQ(poll_pause(k_poll_pause_min, k_much, Seconds(0)), k_poll_pause_min);
}

TEST(PollPause, LeavesTheWorkerTimeForOtherAttempts) {
  EXPECT_EQ(poll_pause(k_poll_pause_min, k_much, Seconds(0.5)), Seconds(10));
}

}  // namespace
}  // namespace combu
