// Ingesting, storing and reading logs.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "telemetry/metrics.hpp"
#include "telemetry_fixture.hpp"

namespace combu::test {
namespace {

using std::chrono::milliseconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(TelemetryTest, ALogIsIngestedInPartsAndNothingIsStoredTwice) {
  engine.say("one\n", milliseconds(0));
  engine.say("oops\n", milliseconds(1), LogStream::err);
  engine.say("two\n", milliseconds(500));
  take();
  EXPECT_EQ(kept(), "one\n!oops\n") << "what may still be followed by something older is left for later";
  engine.say("three\n", milliseconds(700));
  take();
  EXPECT_EQ(kept(), "one\n!oops\ntwo\n");
  EXPECT_FALSE(telemetry.log("a", 1)->complete);
  take(LogEnd::complete);
  EXPECT_EQ(kept(), "one\n!oops\ntwo\nthree\n");
  EXPECT_TRUE(telemetry.log("a", 1)->complete);
  const int calls = engine.calls;
  take(LogEnd::complete);
  EXPECT_EQ(engine.calls, calls) << "what is complete is not asked for again";
}

TEST_F(TelemetryTest, PiecesWithTheSameTimeAreStoredOnce) {
  for (int i = 0; i < 5; ++i) engine.say(fmt::format("{}\n", i), milliseconds(7));
  engine.say("later\n", milliseconds(1000));
  take();
  EXPECT_EQ(kept(), "0\n1\n2\n3\n4\n");
  engine.say("5\n", milliseconds(1000));
  take();
  take(LogEnd::complete);
  EXPECT_EQ(kept(), "0\n1\n2\n3\n4\nlater\n5\n");
}

TEST_F(TelemetryTest, ALossByRotationIsAGapThatIsReportedOnce) {
  const auto say_until = [&](int end) {
    for (int i = static_cast<int>(engine.said); i < end; ++i)
      engine.say(fmt::format("{}\n", i), milliseconds(200 * i));
  };
  const auto gaps = [&] { return telemetry.log("a", 1)->gaps; };
  say_until(4);
  EXPECT_THAT(take(), IsEmpty());
  engine.rotate(2);
  EXPECT_THAT(take(), IsEmpty());
  say_until(6);
  EXPECT_THAT(take(), IsEmpty()) << "only what is kept already was rotated away";
  EXPECT_EQ(kept(), "0\n1\n2\n3\n4\n");
  EXPECT_EQ(gaps(), 0U);
  say_until(9);
  engine.rotate(7);
  EXPECT_THAT(take(), ElementsAre(HasSubstr("removed it by log rotation")));
  EXPECT_EQ(kept(), "0\n1\n2\n3\n4\n7\n");
  EXPECT_EQ(gaps(), 1U);
  say_until(12);
  EXPECT_THAT(take(), IsEmpty());
  EXPECT_EQ(gaps(), 1U);
  say_until(14);
  engine.rotate(13);
  EXPECT_THAT(take(LogEnd::complete), IsEmpty()) << "it has been said";
  EXPECT_EQ(gaps(), 2U);
  EXPECT_EQ(kept(), "0\n1\n2\n3\n4\n7\n8\n9\n10\n13\n");
}

TEST_F(TelemetryTest, APartThatTheEngineHasLostIsAGap) {
  engine.lost_end = true;
  engine.say("first\n", milliseconds(0));
  EXPECT_THAT(take(), IsEmpty());
  EXPECT_THAT(take(LogEnd::complete), ElementsAre(HasSubstr("the agent could not store it")));
  EXPECT_EQ(telemetry.log("a", 1)->gaps, 1U);
  EXPECT_TRUE(telemetry.log("a", 1)->complete);
  EXPECT_EQ(kept(), "first\n");
}

TEST_F(TelemetryTest, AGapIsDetectedAtTheEndAndInAFullBatch) {
  engine.say("first\n", milliseconds(0));
  engine.say("second\n", milliseconds(500));
  take();
  for (int i = 1; i < 10; ++i) engine.say(std::string(1U << 20U, 'x') + "\n", milliseconds(1000 * i));
  engine.rotate(2);
  EXPECT_THAT(take(LogEnd::complete), Contains(HasSubstr("removed it by log rotation")));
  EXPECT_EQ(telemetry.log("a", 1)->gaps, 1U);
}

// Two writers store the streams of a container, so the pieces may not be in the order of their times.
TEST_F(TelemetryTest, APieceOutOfOrderIsNotLostBetweenTwoReadings) {
  engine.say("a\n", milliseconds(0));
  engine.say("c\n", milliseconds(200));
  engine.say("d\n", milliseconds(400));
  take();
  engine.pieces.insert(engine.pieces.begin() + 2,
                       {.text = "b\n", .at = k_begin + milliseconds(399), .stream = LogStream::err});
  engine.say("e\n", milliseconds(900));
  take();
  take(LogEnd::complete);
  EXPECT_EQ(kept(), "a\nc\n!b\nd\ne\n");
}

// Maximum size of an attempt's pieces in memory. Earlier pieces must have been stored.
constexpr std::int64_t k_unstored_max = std::int64_t{14} << 20U;

// An engine gives all pieces of a line the time of the first piece.
TEST_F(TelemetryTest, ALineOfAnySizeIsStoredInPartsAndResumedInTheMiddle) {
  trial.metrics = Metrics{.json = true};
  std::string all;
  for (int i = 0; i < 1600; ++i) {
    const std::string part = fmt::format("{:<16384}", i);
    engine.say(part, milliseconds(0));
    all += part;
  }
  engine.say("\n", milliseconds(0));
  engine.say("{\"x\": 1}\n", milliseconds(1));
  for (const std::size_t piece : {1000, 1500}) {
    engine.reported = 0;
    engine.breaks_at = piece;
    EXPECT_EQ(kind_of_fault(LogEnd::complete), ErrorKind::unavailable);
    const auto log = telemetry.log("a", 1);
    ASSERT_TRUE(log);
    EXPECT_GE(log->size.count, 16384 * static_cast<std::int64_t>(piece) - k_unstored_max);
  }
  engine.breaks_at = std::string::npos;
  EXPECT_THAT(take(LogEnd::complete), IsEmpty());
  EXPECT_TRUE(kept() == all + "\n{\"x\": 1}\n") << "nothing twice and nothing lost";
  EXPECT_THAT(points("x"), ElementsAre("0:1"));
}

TEST_F(TelemetryTest, ALineThatIsOlderThanThePrecedingPieceIsStoredInParts) {
  std::string all = "!later\n";
  engine.say("later\n", milliseconds(5000), LogStream::err);
  for (int i = 0; i < 1200; ++i) {
    const std::string part = fmt::format("{:<16384}", i);
    engine.say(part, milliseconds(0));
    all += part;
  }
  engine.breaks_at = engine.said - 1;
  EXPECT_EQ(kind_of_fault(LogEnd::complete), ErrorKind::unavailable);
  const auto log = telemetry.log("a", 1);
  ASSERT_TRUE(log);
  EXPECT_GE(log->size.count, static_cast<std::int64_t>(all.size()) - k_unstored_max);
}

TEST_F(TelemetryTest, PiecesOfOneByteAreStoredBeforeTheyTakeMuchMemory) {
  constexpr int k_count = 400'000;
  for (int i = 0; i < k_count; ++i) engine.say("\n", milliseconds(0));
  engine.breaks_at = k_count - 1;
  EXPECT_EQ(kind_of_fault(LogEnd::complete), ErrorKind::unavailable);
  const auto log = telemetry.log("a", 1);
  ASSERT_TRUE(log);
  EXPECT_GE(log->size.count, k_count / 4);
}

TEST_F(TelemetryTest, SeveralProcessesStoreEachPieceOnce) {
  constexpr int k_lines = 3000;
  for (int i = 0; i < k_lines; ++i) engine.say(fmt::format("{{\"x\": {}}}\n", i), milliseconds(i));
  trial.metrics = Metrics{.json = true};
  Telemetry other(folder.path(), RunId("run1"));
  const Key key{.run = RunId("run1"), .trial = "a", .attempt = 1};
  {
    std::vector<std::jthread> threads;
    for (Telemetry* one : {&telemetry, &other, &telemetry, &other})
      threads.emplace_back([&, one] {
        LogEngine duplicate;
        duplicate.pieces = engine.pieces;
        (void)ingest_logs(duplicate, key, trial, LogEnd::complete, *one, {});
      });
  }
  EXPECT_EQ(points("x").size(), static_cast<std::size_t>(k_lines));
  EXPECT_EQ(telemetry.log("a", 1)->size.count, static_cast<std::int64_t>(kept().size()));
}

TEST_F(TelemetryTest, ASmallLimitIsUsedAlmostCompletely) {
  for (const int kibibytes : {1, 10, 200}) {
    trial.name = fmt::format("bound-{}", kibibytes);
    engine.pieces.clear();
    trial.log_size_max = Bytes{kibibytes << 10};
    for (int i = 0; i < 4; ++i) {
      for (int k = 0; k < 1000; ++k) engine.say(fmt::format("{:099}\n", 1000 * i + k), milliseconds(i));
      take(i == 3 ? LogEnd::complete : LogEnd::open);
    }
    std::string text;
    telemetry.read_log(trial.name, 1, {}, [&](const LogPiece& piece) {
      text += piece.text;
      return true;
    });
    EXPECT_LE(text.size(), static_cast<std::size_t>(trial.log_size_max.count));
    EXPECT_GT(text.size(), static_cast<std::size_t>(trial.log_size_max.count) - 100)
        << "but for a line's part";
    EXPECT_EQ(text.size() % 100, 0U) << "lines are whole";
    EXPECT_TRUE(text.ends_with("3999\n"));
    const StoredLog log = *telemetry.log(trial.name, 1);
    EXPECT_EQ(log.size.count - log.dropped.count, static_cast<std::int64_t>(text.size()));
  }
}

TEST_F(TelemetryTest, TheEndOfALineLargerThanTheLimitIsKept) {
  trial.log_size_max = Bytes{1000};
  engine.say(std::string(5000, 'x') + "end\n", milliseconds(0));
  take(LogEnd::complete);
  EXPECT_EQ(kept(), std::string(996, 'x') + "end\n");
}

TEST_F(TelemetryTest, TheEndOfALongLogIsKeptAndTheLimitIsReportedOnce) {
  trial.log_size_max = Bytes{1 << 20};
  const std::string line(999, 'x');
  for (int i = 0; i < 3000; ++i) engine.say(line + "\n", milliseconds(i));
  const auto notes = take();
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0], HasSubstr("combu keeps only the last 1 MiB"));
  engine.say("the end\n", milliseconds(5000));
  EXPECT_THAT(take(LogEnd::complete), IsEmpty());
  const std::string text = kept();
  EXPECT_LE(text.size(), std::size_t{1} << 20U);
  EXPECT_GE(text.size(), std::size_t{1} << 19U);
  EXPECT_TRUE(text.ends_with("the end\n"));
  const StoredLog log = *telemetry.log("a", 1);
  EXPECT_EQ(log.size.count, 3'000'008);
  EXPECT_EQ(log.size.count - log.dropped.count, static_cast<std::int64_t>(text.size()));
}

TEST_F(TelemetryTest, ATailConsistsOfTheLastLines) {
  for (int i = 0; i < 30'000; ++i) engine.say(fmt::format("line {:020}\n", i), milliseconds(i));
  take(LogEnd::complete);
  EXPECT_EQ(kept(2), "line 00000000000000029998\nline 00000000000000029999\n");
  EXPECT_EQ(kept(0), "");
  EXPECT_EQ(std::ranges::count(kept(20'000), '\n'), 20'000);
  EXPECT_EQ(kept(99'999), kept());
}

TEST_F(TelemetryTest, EachAttemptHasItsOwnLog) {
  engine.say("first\n", milliseconds(0));
  take(LogEnd::complete);
  LogEngine next;
  next.say("second\n", milliseconds(0));
  (void)ingest_logs(next, {.run = RunId("run1"), .trial = "a", .attempt = 2}, trial, LogEnd::complete,
                    telemetry, {});
  EXPECT_EQ(kept(std::nullopt, 1), "first\n");
  EXPECT_EQ(kept(std::nullopt, 2), "second\n");
  EXPECT_EQ(telemetry.complete(), 2U);
}

TEST_F(TelemetryTest, WithAnEngineThatKeepsNoLogTheLogIsEmptyAndComplete) {
  engine.refuses = true;
  const auto notes = take(LogEnd::complete);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0], HasSubstr("reading the log failed: configured logging driver"));
  EXPECT_TRUE(telemetry.log("a", 1)->complete);
}

TEST_F(TelemetryTest, AfterAFullDiskTheRestIsIngestedLater) {
  trial.metrics = Metrics{.json = true};
  std::string all;
  for (int i = 0; i < 60; ++i) {  // more than one batch
    const std::string line =
        fmt::format("{{\"x\": {}}} {}\n{{\"x\": {}}}\n", i, std::string(100'000, 'x'), i);
    engine.say(line, milliseconds(200 * i));
    all += line;
  }
  take();
  const auto before = telemetry.log("a", 1);
  engine.say("the end\n", milliseconds(60'000));
  for (int i = 0; i < 60; ++i) engine.say(std::string(100'000, 'y') + "\n", milliseconds(60'000 + i));
  auto full = full_disk();
  for (const LogEnd end : {LogEnd::open, LogEnd::complete}) EXPECT_EQ(kind_of_fault(end), ErrorKind::refused);
  engine.on_refusal = [&] { full.reset(); };
  EXPECT_EQ(kind_of_fault(LogEnd::complete), ErrorKind::refused) << "there is room again only for the rest";
  EXPECT_EQ(full, nullptr);
  EXPECT_EQ(telemetry.log("a", 1), before);
  EXPECT_FALSE(before->complete);
  EXPECT_THAT(take(LogEnd::complete), IsEmpty());
  EXPECT_TRUE(telemetry.log("a", 1)->complete);
  EXPECT_EQ(kept().substr(0, all.size()), all);
  EXPECT_EQ(kept().size(), all.size() + 8 + 60 * 100'001);
  EXPECT_EQ(points("x").size(), 60U) << "none twice";
}

TEST_F(TelemetryTest, RemoveDeletesOnlyTheGivenRun) {
  Telemetry other(folder.path(), RunId("run2"));
  Telemetry::remove(folder.path(), RunId("run1"));
  EXPECT_FALSE(Telemetry::exists(folder.path(), RunId("run1")));
  EXPECT_TRUE(Telemetry::exists(folder.path(), RunId("run2")));
  Telemetry::remove(folder.path(), RunId("run1"));
}

}  // namespace
}  // namespace combu::test
