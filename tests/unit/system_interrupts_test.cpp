#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <stop_token>

#include "combu/base.hpp"
#include "combu/system.hpp"

namespace combu {
namespace {

TEST(Interrupts, TheFirstSignalSetsTheToken) {
  const Interrupts interrupts;
  EXPECT_EQ(interrupts.signal(), 0);
  std::atomic<bool> stopped{false};
  const std::stop_callback on_stop(interrupts.token(), [&stopped] {
    stopped = true;
    stopped.notify_all();
  });
  ASSERT_EQ(kill(getpid(), SIGINT), 0);
  stopped.wait(false);
  EXPECT_EQ(interrupts.signal(), SIGINT);
}

TEST(InterruptsDeathTest, TheSecondSignalEndsTheProcessAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const Interrupts interrupts([] { fputs("terminal put right\n", stderr); });
        std::atomic<bool> stopped{false};
        const std::stop_callback on_stop(interrupts.token(), [&stopped] {
          stopped = true;
          stopped.notify_all();
        });
        kill(getpid(), SIGTERM);
        stopped.wait(false);
        kill(getpid(), SIGTERM);
        while (true) pause();
      },
      testing::ExitedWithCode(143), "terminal put right");
}

}  // namespace
}  // namespace combu
