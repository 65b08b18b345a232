#include "run/run_clock.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace combu {
namespace {

constexpr Instant k_began{std::chrono::seconds(1'800'000'000)};

// The measured time must lie between the times of the steady clock before and after the measurement.
TEST(RunClock, ContinuesFromItsStartLikeTheSteadyClock) {
  using Steady = std::chrono::steady_clock;
  const Steady::time_point before_start = Steady::now();
  const RunClock clock(k_began);
  const Steady::time_point after_start = Steady::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const Steady::time_point before = Steady::now();
  const Instant now = clock.now();
  const Steady::time_point after = Steady::now();
  const auto lasted = [](Steady::duration duration) {
    return std::chrono::duration_cast<Instant::duration>(duration);
  };
  EXPECT_GE(now - k_began, lasted(before - after_start));
  EXPECT_GE(now - k_began, std::chrono::milliseconds(5));
  EXPECT_LE(now - k_began, lasted(after - before_start));
}

TEST(RunClock, IsNeverSetBack) {
  const RunClock clock(k_began);
  Instant last = k_began;
  for (int i = 0; i < 10'000; ++i) {
    const Instant now = clock.now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(RunClock, DoesNotReadTheWallClock) {
  constexpr Instant k_epoch{};
  EXPECT_LT(RunClock(k_epoch).now() - k_epoch, std::chrono::hours(1)) << "near the epoch, not near today";
}

TEST(RunClock, ACopyHasTheSameStart) {
  const RunClock clock(k_began);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const RunClock copy = clock;
  EXPECT_GE(copy.now() - k_began, std::chrono::milliseconds(2));
}

}  // namespace
}  // namespace combu
