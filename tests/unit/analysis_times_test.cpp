// Tests of how an attempt's time divides into parts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <vector>

#include "combu/analysis.hpp"

namespace combu {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::Optional;

const Instant k_begin = *parse_timestamp("2026-01-31T12:00:00Z");

std::optional<Seconds> part(const TimedAttempt& attempt, AttemptPart which) {
  return attempt.times.at(static_cast<std::size_t>(which));
}

// Ready `ready` seconds after the run began. Then 1 s waiting for slots, 4 s starting, 10 s running and 2 s
// collecting outputs.
AttemptEntry attempt(int number, int ready) {
  AttemptEntry entry{.trial = "a", .attempt = number};
  entry.ready_at = k_begin + seconds(ready);
  entry.started_at = entry.ready_at + seconds(1);
  entry.created_in = Seconds(2);
  entry.started_in = Seconds(1.5);
  entry.ran_at = entry.started_at + seconds(4);
  entry.ended_at = *entry.ran_at + seconds(10);
  entry.collected_at = *entry.ended_at + seconds(2);
  return entry;
}

RunEntry run() {
  RunEntry entry;
  entry.began_at = k_begin;
  entry.working_since = k_begin + seconds(100);
  return entry;
}

TEST(AttemptTimes, PartsAddUpToTheWholeTime) {
  const auto timed = times_of({attempt(1, 3)}, run());
  ASSERT_EQ(timed.size(), 1U);
  EXPECT_THAT(
      timed[0].times,
      ElementsAre(Optional(Seconds(3)), std::nullopt, Optional(Seconds(1)), Optional(Seconds(0.5)),
                  Optional(Seconds(2)), Optional(Seconds(1.5)), Optional(Seconds(10)), Optional(Seconds(2))));
}

TEST(AttemptTimes, ARetryWaitsSinceTheEndOfThePreviousAttempt) {
  const auto timed = times_of({attempt(1, 0), attempt(2, 20)}, run());
  ASSERT_EQ(timed.size(), 2U);
  EXPECT_EQ(part(timed[0], AttemptPart::needs), std::nullopt);  // ready when the run began
  EXPECT_EQ(part(timed[1], AttemptPart::needs), std::nullopt);
  EXPECT_THAT(part(timed[1], AttemptPart::retry), Optional(Seconds(3)));  // 20 - (1 + 4 + 10 + 2)
}

TEST(AttemptTimes, TheFirstAttemptAfterARetryCommandHasNotWaited) {
  AttemptEntry again = attempt(2, 500);
  again.first_attempt = 2;
  const auto timed = times_of({attempt(1, 0), again}, run());
  EXPECT_EQ(part(timed[1], AttemptPart::needs), std::nullopt);
  EXPECT_EQ(part(timed[1], AttemptPart::retry), std::nullopt);
}

TEST(AttemptTimes, ATrialOfAChangedFileWaitsSinceTheRunWasReopened) {
  AttemptEntry entry = attempt(1, 105);
  entry.revision = 2;
  EXPECT_THAT(part(times_of({entry}, run())[0], AttemptPart::needs), Optional(Seconds(5)));
}

TEST(AttemptTimes, AnAttemptThatHasNotRunHasOnlyWaitingTimes) {
  AttemptEntry entry = attempt(1, 0);
  entry.ran_at = entry.ended_at = entry.collected_at = std::nullopt;
  entry.created_in = entry.started_in = std::nullopt;
  const auto timed = times_of({entry}, run());
  EXPECT_THAT(part(timed[0], AttemptPart::place), Optional(Seconds(1)));
  EXPECT_EQ(part(timed[0], AttemptPart::starting), std::nullopt);
  EXPECT_EQ(part(timed[0], AttemptPart::running), std::nullopt);
}

TEST(AttemptTimes, TimesOfSeveralAttemptsAreSummedByPart) {
  std::vector<TimedAttempt> attempts(10);
  for (int i = 0; i < 10; ++i)
    attempts[static_cast<std::size_t>(i)].times.at(static_cast<std::size_t>(AttemptPart::running)) =
        Seconds(10 - i);
  const TimesByPart parts = times_by_part(attempts);
  const auto& running = parts.at(static_cast<std::size_t>(AttemptPart::running));
  ASSERT_TRUE(running);
  EXPECT_EQ(running->median, Seconds(6));
  EXPECT_EQ(running->most_of_90_percent, Seconds(10));
  EXPECT_EQ(running->most, Seconds(10));
  EXPECT_EQ(running->sum, Seconds(55));
  EXPECT_FALSE(parts.at(static_cast<std::size_t>(AttemptPart::retry)));
}

}  // namespace
}  // namespace combu
