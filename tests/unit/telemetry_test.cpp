#include "combu/telemetry.hpp"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <sstream>
#include <thread>

#include "combu/simulated.hpp"
#include "passing_engine.hpp"
#include "record_folder.hpp"
#include "telemetry/metric_file.hpp"
#include "telemetry/metrics.hpp"
#include "telemetry/pack.hpp"

namespace combu::test {
namespace {

using std::chrono::milliseconds;
using telemetry::MetricLines;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const Instant k_begin = *parse_moment("2026-01-31T12:00:00Z");

// An engine that has one log, of which a first part may be all that is there yet.
class LogEngine : public PassingEngine {
 public:
  LogEngine() : PassingEngine(static_cast<Engine&>(*this)) {}

  struct Piece {
    std::string text;
    Instant at;
    LogStream stream = LogStream::out;
  };

  void say(const std::string& text, Instant::duration after, LogStream stream = LogStream::out) {
    pieces.push_back({.text = text, .at = k_begin + after, .stream = stream});
    ++said;
  }

  // Nothing that was said before this one is there any more.
  void rotate(std::size_t first) {
    pieces.erase(pieces.begin(),
                 pieces.begin() + static_cast<std::ptrdiff_t>(first - (said - pieces.size())));
  }

  void logs(const Key& /*key*/, const LogOptions& options, const LogTell& tell,
            std::stop_token /*stop*/) override {
    EXPECT_TRUE(options.timed);
    ++calls;
    if (refuses) throw Error(ErrorKind::refused, "", "configured logging driver does not support reading");
    for (const Piece& piece : pieces) {
      if (options.since && piece.at < *options.since) continue;
      if (static_cast<std::size_t>(told) == breaks_at) throw Error(ErrorKind::unavailable, "", "cut off");
      ++told;
      try {
        tell({.stream = piece.stream, .text = piece.text, .at = piece.at});
      } catch (const Error&) {
        if (on_refusal) on_refusal();
        throw;
      }
    }
  }

  bool copy_out(const Key& /*key*/, const std::string& path,
                const std::function<void(std::string_view)>& tell, std::stop_token /*stop*/) override {
    copied = 0;
    if (is_unreadable) throw Error(ErrorKind::invalid, path, "cannot be read: it is a loop");
    if (!files.contains(path)) return false;
    const auto done = before_copy ? before_copy() : nullptr;
    const std::string archive = tar_of({{path.substr(path.rfind('/') + 1), files.at(path)}});
    const std::size_t end = std::min(cut_at, archive.size());
    for (; copied < end; copied += std::min(piece_size, end - copied))
      tell(std::string_view(archive).substr(copied, std::min(piece_size, end - copied)));
    if (end < archive.size()) throw Error(ErrorKind::unavailable, "", "cut off");
    return true;
  }

  std::vector<Piece> pieces;
  std::size_t said = 0;
  std::map<std::string, std::string> files;
  int calls = 0;
  int told = 0;
  std::size_t breaks_at = std::string::npos;  // after so many pieces it goes away
  bool refuses = false;
  bool is_unreadable = false;                          // any path
  std::size_t piece_size = 1000;                       // of an archive
  std::size_t cut_at = std::string::npos;              // it ends there
  std::size_t copied = 0;                              // of the last one
  std::function<std::shared_ptr<void>()> before_copy;  // what it gives is held until the end
  std::function<void()> on_refusal;                    // who is told wants no more
};

class TelemetryTest : public testing::Test {
 protected:
  std::vector<std::string> take(LogEnd end = LogEnd::open) {
    return take_logs(engine, {.run = RunId("run1"), .trial = trial.name, .attempt = 1}, trial, end, telemetry,
                     {});
  }

  std::optional<ErrorKind> kind_of_fault(LogEnd end) {
    try {
      take(end);
    } catch (const Error& error) {
      return error.kind();
    }
    return std::nullopt;
  }

  std::string kept(std::optional<std::size_t> tail = std::nullopt, int attempt = 1) {
    std::string text;
    telemetry.read_log("a", attempt, tail, [&](const LogPiece& piece) {
      if (piece.stream == LogStream::err) text += "!";
      text += piece.text;
      return true;
    });
    return text;
  }

  std::vector<std::string> metrics() {
    std::vector<std::string> all;
    telemetry.metrics([&](const MetricSummary& one) {
      all.push_back(fmt::format("{}.{} {}: {} points, last {}, {} to {}", one.trial, one.attempt, one.metric,
                                one.points, one.last, one.least, one.greatest));
    });
    return all;
  }

  std::vector<std::string> points(const std::string& metric) {
    std::vector<std::string> all;
    telemetry.points("a", metric, [&](const MetricPoint& point) {
      all.push_back(fmt::format("{}:{}", point.step, point.value));
    });
    return all;
  }

  Folder folder{"telemetry"};
  LogEngine engine;
  Trial trial{.name = "a"};
  Telemetry telemetry{folder.path(), RunId("run1")};
};

TEST_F(TelemetryTest, ALogIsTakenPieceByPieceAndNothingTwice) {
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

TEST_F(TelemetryTest, PiecesOfTheSameMomentAreTakenOnceEach) {
  for (int i = 0; i < 5; ++i) engine.say(fmt::format("{}\n", i), milliseconds(7));
  engine.say("later\n", milliseconds(1000));
  take();
  EXPECT_EQ(kept(), "0\n1\n2\n3\n4\n");
  engine.say("5\n", milliseconds(1000));
  take();
  take(LogEnd::complete);
  EXPECT_EQ(kept(), "0\n1\n2\n3\n4\nlater\n5\n");
}

TEST_F(TelemetryTest, WhatTheEngineHasRotatedAwayBetweenTwoReadingsIsAGapThatIsSaidOnce) {
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
  EXPECT_THAT(take(), ElementsAre(HasSubstr("rotated it away")));
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

TEST_F(TelemetryTest, AGapIsSeenAtTheEndAndInWhatFillsABatch) {
  engine.say("first\n", milliseconds(0));
  engine.say("second\n", milliseconds(500));
  take();
  for (int i = 1; i < 10; ++i) engine.say(std::string(1U << 20U, 'x') + "\n", milliseconds(1000 * i));
  engine.rotate(2);
  EXPECT_THAT(take(LogEnd::complete), Contains(HasSubstr("rotated it away")));
  EXPECT_EQ(telemetry.log("a", 1)->gaps, 1U);
}

// The streams of a container are written down by two writers: their order may be another than their times'.
TEST_F(TelemetryTest, WhatIsWrittenOutOfOrderAroundAReadingIsNotLost) {
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

// More than an attempt's pieces may take in memory: what came before must be stored.
constexpr std::int64_t k_unstored_max = std::int64_t{14} << 20U;

// An engine gives all pieces of a line the time of the first one.
TEST_F(TelemetryTest, ALineOfAnySizeIsStoredWhileItComesAndIsResumedInTheMiddle) {
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
    engine.told = 0;
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

TEST_F(TelemetryTest, ALineThatIsOlderThanThePieceBeforeItIsStoredWhileItComes) {
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

TEST_F(TelemetryTest, TwoThatTakeAtOnceTakeEachPieceOnce) {
  constexpr int k_lines = 3000;
  for (int i = 0; i < k_lines; ++i) engine.say(fmt::format("{{\"x\": {}}}\n", i), milliseconds(i));
  trial.metrics = Metrics{.json = true};
  Telemetry other(folder.path(), RunId("run1"));
  const Key key{.run = RunId("run1"), .trial = "a", .attempt = 1};
  {
    std::vector<std::jthread> threads;
    for (Telemetry* one : {&telemetry, &other, &telemetry, &other})
      threads.emplace_back([&, one] {
        LogEngine twin;
        twin.pieces = engine.pieces;
        (void)take_logs(twin, key, trial, LogEnd::complete, *one, {});
      });
  }
  EXPECT_EQ(points("x").size(), static_cast<std::size_t>(k_lines));
  EXPECT_EQ(telemetry.log("a", 1)->size.count, static_cast<std::int64_t>(kept().size()));
}

TEST_F(TelemetryTest, OfABoundThatIsSmallNearlyAllIsUsed) {
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
    const KeptLog log = *telemetry.log(trial.name, 1);
    EXPECT_EQ(log.size.count - log.dropped.count, static_cast<std::int64_t>(text.size()));
  }
}

TEST_F(TelemetryTest, OfALineThatIsLargerThanTheBoundTheEndIsKept) {
  trial.log_size_max = Bytes{1000};
  engine.say(std::string(5000, 'x') + "end\n", milliseconds(0));
  take(LogEnd::complete);
  EXPECT_EQ(kept(), std::string(996, 'x') + "end\n");
}

TEST_F(TelemetryTest, OfALongLogTheEndIsKeptAndThatIsSaidOnce) {
  trial.log_size_max = Bytes{1 << 20};
  const std::string line(999, 'x');
  for (int i = 0; i < 3000; ++i) engine.say(line + "\n", milliseconds(i));
  const auto notes = take();
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0], HasSubstr("the last 1 MiB are kept (logs.max_size)"));
  engine.say("the end\n", milliseconds(5000));
  EXPECT_THAT(take(LogEnd::complete), IsEmpty());
  const std::string text = kept();
  EXPECT_LE(text.size(), std::size_t{1} << 20U);
  EXPECT_GE(text.size(), std::size_t{1} << 19U);
  EXPECT_TRUE(text.ends_with("the end\n"));
  const KeptLog log = *telemetry.log("a", 1);
  EXPECT_EQ(log.size.count, 3'000'008);
  EXPECT_EQ(log.size.count - log.dropped.count, static_cast<std::int64_t>(text.size()));
}

TEST_F(TelemetryTest, ATailIsTheLastLines) {
  for (int i = 0; i < 30'000; ++i) engine.say(fmt::format("line {:020}\n", i), milliseconds(i));
  take(LogEnd::complete);
  EXPECT_EQ(kept(2), "line 00000000000000029998\nline 00000000000000029999\n");
  EXPECT_EQ(kept(0), "");
  EXPECT_EQ(std::ranges::count(kept(20'000), '\n'), 20'000);
  EXPECT_EQ(kept(99'999), kept());
}

TEST_F(TelemetryTest, EachAttemptHasItsOwn) {
  engine.say("first\n", milliseconds(0));
  take(LogEnd::complete);
  LogEngine next;
  next.say("second\n", milliseconds(0));
  (void)take_logs(next, {.run = RunId("run1"), .trial = "a", .attempt = 2}, trial, LogEnd::complete,
                  telemetry, {});
  EXPECT_EQ(kept(std::nullopt, 1), "first\n");
  EXPECT_EQ(kept(std::nullopt, 2), "second\n");
  EXPECT_EQ(telemetry.complete(), 2U);
}

TEST_F(TelemetryTest, AnEngineThatKeepsNoLogLeavesNone) {
  engine.refuses = true;
  const auto notes = take(LogEnd::complete);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0], HasSubstr("its log is not kept: configured logging driver"));
  EXPECT_TRUE(telemetry.log("a", 1)->complete);
}

// A disk that is full, as far as files can tell: none may grow.
class FullDisk {
 public:
  FullDisk() {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &none);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
};

TEST_F(TelemetryTest, WhatThereIsNoRoomForIsTakenLaterAndIsNotWholeBefore) {
  trial.metrics = Metrics{.json = true};
  std::string all;
  for (int i = 0; i < 60; ++i) {  // more than is handed on at once
    const std::string line =
        fmt::format("{{\"x\": {}}} {}\n{{\"x\": {}}}\n", i, std::string(100'000, 'x'), i);
    engine.say(line, milliseconds(200 * i));
    all += line;
  }
  take();
  const auto before = telemetry.log("a", 1);
  engine.say("the end\n", milliseconds(60'000));
  for (int i = 0; i < 60; ++i) engine.say(std::string(100'000, 'y') + "\n", milliseconds(60'000 + i));
  auto full = std::make_unique<FullDisk>();
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

TEST_F(TelemetryTest, RemoveTakesAllOfARunAndNothingElse) {
  Telemetry other(folder.path(), RunId("run2"));
  Telemetry::remove(folder.path(), RunId("run1"));
  EXPECT_FALSE(Telemetry::exists(folder.path(), RunId("run1")));
  EXPECT_TRUE(Telemetry::exists(folder.path(), RunId("run2")));
  Telemetry::remove(folder.path(), RunId("run1"));
}

// ---- Metrics

TEST_F(TelemetryTest, MetricsAreTakenWhileTheTrialRuns) {
  trial.metrics = Metrics{.json = true};
  engine.say("hello\n", milliseconds(0));
  engine.say("{\"step\": 10, \"loss\": 0.5, \"note\": \"x\"}\n", milliseconds(1));
  engine.say("{\"step\": 20, \"loss\": 0.25, \"acc\": 1}\n", milliseconds(2));
  engine.say("{\"loss\": 9}\n", milliseconds(3), LogStream::err);
  engine.say("x\n", milliseconds(1000));
  take();
  EXPECT_THAT(metrics(),
              ElementsAre("a.1 acc: 1 points, last 1, 1 to 1", "a.1 loss: 2 points, last 0.25, 0.25 to 0.5"));
  engine.say("{\"step\": 30, \"loss\": 0.75}\n", milliseconds(2000));
  take(LogEnd::complete);
  EXPECT_THAT(points("loss"), ElementsAre("10:0.5", "20:0.25", "30:0.75"));
  EXPECT_THAT(metrics(), testing::Contains("a.1 loss: 3 points, last 0.75, 0.25 to 0.75"));
}

TEST_F(TelemetryTest, ALineThatIsWrittenInPartsIsReadAsOne) {
  trial.metrics = Metrics{.json = true};
  engine.say("{\"loss\":", milliseconds(0));
  engine.say("err\n", milliseconds(1), LogStream::err);
  engine.say("later\n", milliseconds(1000), LogStream::err);
  take();
  EXPECT_EQ(kept(), "") << "a line that has begun is left for later";
  engine.pieces.insert(engine.pieces.begin() + 2, {.text = " 3}\n", .at = k_begin + milliseconds(2)});
  take(LogEnd::complete);
  EXPECT_THAT(points("loss"), ElementsAre("0:3"));
}

TEST_F(TelemetryTest, ALineThatIsBegunWhereABatchEndsIsReadAsOne) {
  trial.metrics = Metrics{.json = true};
  const std::string much(3 << 20, 'x');
  engine.say(much + "\n", milliseconds(0));
  engine.say("{\"loss\":", milliseconds(1));
  engine.say(much + "\n", milliseconds(1000), LogStream::err);
  take();
  EXPECT_EQ(kept(), much + "\n");
  engine.say(" 3}\n", milliseconds(1100));
  take(LogEnd::complete);
  EXPECT_THAT(points("loss"), ElementsAre("0:3"));
}

TEST_F(TelemetryTest, ALineOfTheOtherStreamHoldsUpNoMetrics) {
  trial.metrics = Metrics{.json = true};
  engine.say("10 %\r", milliseconds(0), LogStream::err);
  engine.say("{\"loss\": 3}\n", milliseconds(1));
  engine.say("20 %\r", milliseconds(1000), LogStream::err);
  take();
  EXPECT_THAT(points("loss"), ElementsAre("0:3"));
}

TEST_F(TelemetryTest, EachStateOfAProgressBarIsALine) {
  trial.metrics = Metrics{.pattern = R"(^epoch (?P<step>\d+) loss (?P<loss>[\d.]+)$)"};
  engine.say("epoch 1 loss 0.5\repoch 2 loss 0.4\repoch 3 loss 0.3\n", milliseconds(0));
  engine.say("epoch 4 loss 0.2\r\n", milliseconds(1));
  take(LogEnd::complete);
  EXPECT_THAT(points("loss"), ElementsAre("1:0.5", "2:0.4", "3:0.3", "4:0.2"));
  EXPECT_EQ(kept(), "epoch 1 loss 0.5\repoch 2 loss 0.4\repoch 3 loss 0.3\nepoch 4 loss 0.2\r\n");
}

TEST_F(TelemetryTest, AStateOfAProgressBarThatIsWrittenInPartsIsReadAsOne) {
  trial.metrics = Metrics{.pattern = R"(loss (?P<loss>[\d.]+))"};
  engine.say("loss 0.5\rloss 0.", milliseconds(0));
  engine.say("later\n", milliseconds(1000), LogStream::err);
  take();
  EXPECT_EQ(kept(), "") << "standard output is within a line";
  engine.say("25\rloss 0.125\r", milliseconds(2000));
  engine.say("later\n", milliseconds(3000), LogStream::err);
  take();
  EXPECT_THAT(points("loss"), ElementsAre("0:0.5", "1:0.25", "2:0.125"));
  EXPECT_EQ(kept(), "loss 0.5\rloss 0.!later\n25\rloss 0.125\r") << "at the end of a state nothing is open";
  take(LogEnd::complete);
  EXPECT_THAT(points("loss"), ElementsAre("0:0.5", "1:0.25", "2:0.125"));
}

TEST_F(TelemetryTest, AProgressBarThatNeverEndsIsKeptWhileItIsDrawn) {
  const std::string part = fmt::format("{}\r{}", std::string(8000, 'a'), std::string(8000, 'b'));
  for (int i = 0; i < 200; ++i) engine.say(part, milliseconds(i));
  engine.say("later\n", milliseconds(5000), LogStream::err);
  take();
  EXPECT_GT(kept().size(), telemetry::k_line_max);
}

TEST_F(TelemetryTest, ALineThatIsTooLongToBeReadIsTakenInParts) {
  trial.metrics = Metrics{.json = true};
  const std::string part(16 << 10, 'x');
  for (int i = 0; i < 65; ++i) engine.say(part, milliseconds(i));
  engine.say("x", milliseconds(1000));
  take();
  EXPECT_EQ(kept().size(), 65 * part.size());
  engine.say("\n{\"loss\": 3}\n", milliseconds(2000));
  take(LogEnd::complete);
  EXPECT_THAT(points("loss"), ElementsAre("0:3"));
}

TEST_F(TelemetryTest, OnesThatAreNoNumbersHarmNothing) {
  trial.metrics = Metrics{.json = true};
  engine.say(
      "{\"x\": 1}\n{\"x\": NaN}\n{\"x\": -Infinity}\n{\"x\": Infinity, \"s\": \"NaN\"}\n{\"x\": \"text\"}\n",
      milliseconds(0));
  engine.say("{\"x\": 2, \"in\": {\"x\": 7}, \"list\": [1, 2], \"y\": null, \"z\": true}\n{\"x\": 1e999}\n",
             milliseconds(1));
  engine.say(std::string("{\"x\": \xff\xfe\0}\n", 12), milliseconds(2));
  engine.say("{\"x\": 4}{\"x\": 5}\n{\"x\": \n[1]\n{}\n", milliseconds(3));
  engine.say("{\"x\": " + std::string(2 << 20, '1') + "}\n", milliseconds(4));
  engine.say("{\"x\": 3}", milliseconds(5));
  take(LogEnd::complete);
  EXPECT_THAT(points("x"), ElementsAre("0:1", "1:nan", "2:-inf", "3:inf", "4:2", "5:inf", "6:3"));
  EXPECT_THAT(metrics(),
              ElementsAre("a.1 in.x: 1 points, last 7, 7 to 7", "a.1 x: 7 points, last 3, -inf to inf"));
}

TEST_F(TelemetryTest, ANestedMetricHasTheNamesOfAllItsObjects) {
  trial.metrics = Metrics{.json = true, .file = "/m.jsonl"};
  engine.say("{\"step\": 7, \"val\": {\"acc\": 0.5, \"top\": {\"5\": 0.75}, \"step\": 2}, \"loss\": 1}\n",
             milliseconds(0));
  engine.say(
      "{\"val\": {\"acc\": NaN}, \"list\": [{\"acc\": 1}, [2], {\"in\": {\"acc\": 3}}], \"loss\": 2}\n",
      milliseconds(1));
  engine.files["/m.jsonl"] = "{\"test\": {\"acc\": 0.25}}";
  EXPECT_THAT(take(LogEnd::complete), IsEmpty());
  EXPECT_THAT(points("val.acc"), ElementsAre("7:0.5", "1:nan"));
  EXPECT_THAT(points("val.top.5"), ElementsAre("7:0.75"));
  EXPECT_THAT(points("val.step"), ElementsAre("7:2")) << "the step is not nested";
  EXPECT_THAT(points("loss"), ElementsAre("7:1", "1:2"));
  EXPECT_THAT(points("test.acc"), ElementsAre("0:0.25"));
  EXPECT_THAT(metrics(), SizeIs(5)) << "none of the array";
}

TEST_F(TelemetryTest, TheFirstOfSeveralNumbersOfOneNameInALineCounts) {
  trial.metrics = Metrics{.json = true, .file = "/m.csv"};
  engine.say("{\"val\": {\"acc\": 0.5}, \"val.acc\": 3, \"step\": 4, \"step\": 5}\n", milliseconds(0));
  engine.say("{\"val.acc\": 2, \"val\": {\"acc\": 0.75}}\n{\"val\": {\"acc\": 1}}\n", milliseconds(1));
  engine.files["/m.csv"] = "step,loss,loss\n7,1,2\n8,x,3\n";
  EXPECT_THAT(take(LogEnd::complete), IsEmpty());
  EXPECT_THAT(points("val.acc"), ElementsAre("4:0.5", "1:2", "2:1"));
  EXPECT_THAT(points("loss"), ElementsAre("7:1", "8:3"));
}

TEST_F(TelemetryTest, ALineOfDeeplyNestedObjectsNeedsLittleMemory) {
  trial.metrics = Metrics{.json = true};
  std::string line;
  for (int i = 0; i < 50'000; ++i) line += "{\"x\":1,\"a\":";
  engine.say(line + "2" + std::string(50'000, '}') + "\n", milliseconds(0));
  EXPECT_THAT(take(LogEnd::complete), IsEmpty());
  EXPECT_THAT(points("a.a.x"), ElementsAre("0:1"));
  EXPECT_THAT(metrics(), SizeIs(128)) << "longer names are passed over";
}

TEST_F(TelemetryTest, TheStepMayHaveAnotherName) {
  trial.metrics = Metrics{.json = true, .file = "/m.csv", .step = "train.epoch"};
  engine.say("{\"train\": {\"epoch\": 3, \"loss\": 0.5}, \"step\": 9}\n{\"train.epoch\": 4, \"loss\": 2}\n",
             milliseconds(0));
  engine.files["/m.csv"] = "train.epoch,acc\n5,0.25\n6,0.5\n";
  EXPECT_THAT(take(LogEnd::complete), IsEmpty());
  EXPECT_THAT(points("train.loss"), ElementsAre("3:0.5"));
  EXPECT_THAT(points("step"), ElementsAre("3:9")) << "it is a metric like others then";
  EXPECT_THAT(points("loss"), ElementsAre("4:2"));
  EXPECT_THAT(points("acc"), ElementsAre("5:0.25", "6:0.5"));
  EXPECT_THAT(points("train.epoch"), IsEmpty());
}

TEST_F(TelemetryTest, TheStepOfAPatternMayHaveAnotherName) {
  trial.metrics = Metrics{.pattern = R"(epoch (?P<epoch>\d+): loss (?P<loss>\S+))", .step = "epoch"};
  engine.say("epoch 3: loss 0.5\nepoch 4: loss 0.25\n", milliseconds(0));
  take(LogEnd::complete);
  EXPECT_THAT(points("loss"), ElementsAre("3:0.5", "4:0.25"));
  EXPECT_THAT(points("epoch"), IsEmpty());
}

TEST_F(TelemetryTest, WhatProgramsPrintForNoNumberIsTaken) {
  trial.metrics = Metrics{.json = true};
  for (const char* const one : {"nan", "-nan", "NAN", "inf", "-inf", "+Inf", "-INFINITY", "1e999", "-1e999"})
    engine.say(fmt::format("{{\"x\": {}, \"name\": \"an inf, \\\"nan\", \"y\": 2}}\n", one), milliseconds(0));
  engine.say("{\"x\": nano, \"y\": 3}\n{\"x\": 1e-999, \"y\": 4}\n", milliseconds(1));
  take(LogEnd::complete);
  EXPECT_THAT(points("x"), ElementsAre("0:nan", "1:nan", "2:nan", "3:inf", "4:-inf", "5:inf", "6:-inf",
                                       "7:inf", "8:-inf", "9:0"));
  EXPECT_THAT(points("y"), SizeIs(10)) << "what else is in such a line";
}

TEST_F(TelemetryTest, MetricsOfNothingButNaNHaveNoLeast) {
  trial.metrics = Metrics{.json = true};
  engine.say("{\"x\": NaN}\n", milliseconds(0));
  take(LogEnd::complete);
  EXPECT_THAT(metrics(), ElementsAre("a.1 x: 1 points, last nan, nan to nan"));
}

TEST_F(TelemetryTest, APatternFindsNumbersInPlainText) {
  trial.metrics =
      Metrics{.pattern = R"(epoch (?P<step>\d+).*loss[ =](?P<loss>\S+)(?: acc=(?P<acc>[\d.]+))?)"};
  engine.say("epoch 1: loss=0.5 acc=0.9\nepoch 2: loss 1e-3\nepoch 3: loss=bad\nnothing\n", milliseconds(0));
  take(LogEnd::complete);
  EXPECT_THAT(points("loss"), ElementsAre("1:0.5", "2:0.001"));
  EXPECT_THAT(points("acc"), ElementsAre("1:0.9"));
}

TEST_F(TelemetryTest, AFileOfMetricsIsReadAtTheEnd) {
  trial.metrics = Metrics{.file = "/out/metrics.csv"};
  engine.files["/out/metrics.csv"] =
      "step,loss, \"val, acc\",name\r\n1,0.5,0.25,x\r\n2,nan,,y\r\n\r\n3,0.125,1,z";
  take();
  EXPECT_THAT(metrics(), IsEmpty());
  EXPECT_THAT(take(LogEnd::complete), IsEmpty());
  EXPECT_THAT(points("loss"), ElementsAre("1:0.5", "2:nan", "3:0.125"));
  EXPECT_THAT(points("val, acc"), ElementsAre("1:0.25", "3:1"));
  EXPECT_THAT(points("name"), IsEmpty());
}

TEST_F(TelemetryTest, AFileOfMetricsMayBeLinesOfJson) {
  trial.metrics = Metrics{.file = "/m.jsonl"};
  engine.files["/m.jsonl"] = "{\"loss\": 2}\n{\"loss\": 1}";
  EXPECT_THAT(take(LogEnd::complete), IsEmpty());
  EXPECT_THAT(points("loss"), ElementsAre("0:2", "1:1"));
}

TEST_F(TelemetryTest, AFileOfMetricsThatIsNotThereIsTold) {
  trial.metrics = Metrics{.file = "/m.jsonl"};
  EXPECT_THAT(take(LogEnd::complete), ElementsAre("there is no file of metrics /m.jsonl"));
  EXPECT_TRUE(telemetry.log("a", 1)->complete);
}

TEST_F(TelemetryTest, AFileOfMetricsThatTheTrialMadeUnreadableIsToldAndTheLogIsComplete) {
  trial.metrics = Metrics{.file = "/m.jsonl"};
  engine.is_unreadable = true;
  engine.say("said\n", milliseconds(1));
  EXPECT_THAT(take(LogEnd::complete),
              ElementsAre("its file of metrics /m.jsonl cannot be read: it is a loop"));
  ASSERT_TRUE(telemetry.log("a", 1));
  EXPECT_TRUE(telemetry.log("a", 1)->complete);
}

TEST_F(TelemetryTest, AFileOfMetricsNeedsNoRoomOnTheDisk) {
  trial.metrics = Metrics{.file = "/m.jsonl"};
  for (int i = 0; i < 100'000; ++i) engine.files["/m.jsonl"] += fmt::format("{{\"x\": {}}}\n", i);
  engine.before_copy = [] { return std::make_shared<FullDisk>(); };
  EXPECT_THAT(take(LogEnd::complete), IsEmpty());
  EXPECT_EQ(points("x").size(), 100'000U);
  EXPECT_TRUE(telemetry.log("a", 1)->complete);
}

TEST_F(TelemetryTest, AFileOfMetricsThatIsCutOffIsReadOnceMore) {
  trial.metrics = Metrics{.file = "/m.jsonl"};
  for (int i = 0; i < 1000; ++i) engine.files["/m.jsonl"] += fmt::format("{{\"x\": {}}}\n", i);
  for (const std::size_t cut_at : {0, 100, 512, 5000}) {
    engine.cut_at = cut_at;
    EXPECT_EQ(kind_of_fault(LogEnd::complete), ErrorKind::unavailable);
    EXPECT_FALSE(telemetry.log("a", 1)) << "nothing is kept yet";
  }
  engine.cut_at = std::string::npos;
  EXPECT_THAT(take(LogEnd::complete), IsEmpty());
  EXPECT_EQ(points("x").size(), 1000U);
}

TEST_F(TelemetryTest, OfAFileOfMetricsThatIsLongTheBeginningIsRead) {
  engine.files["/m.jsonl"] = "{\"x\": 1}\n{\"x\": 2}\n" + std::string(1 << 20, '\n') + "{\"x\": 3}\n";
  const auto read = [&](Bytes size_max) {
    telemetry::MetricLimits limits;
    return telemetry::read_metric_file(engine, {.run = RunId("run1"), .trial = "a", .attempt = 1},
                                       Metrics{.file = "/m.jsonl"}, limits, {}, size_max);
  };
  const telemetry::FileMetrics some = read(Bytes{14});
  EXPECT_EQ(some.fault, "of its file of metrics /m.jsonl the first 14 B are read");
  ASSERT_THAT(some.metrics, SizeIs(1));
  EXPECT_THAT(some.metrics[0].points, SizeIs(1)) << "half a line is none";
  EXPECT_LT(engine.copied, std::size_t{100'000}) << "what is not read is not asked for";
  const telemetry::FileMetrics all = read(Bytes{static_cast<std::int64_t>(engine.files["/m.jsonl"].size())});
  EXPECT_EQ(all.fault, "");
  EXPECT_THAT(all.metrics[0].points, SizeIs(3));
}

TEST_F(TelemetryTest, AFileOfMetricsMayHoldNoiseAndAnEndlessLine) {
  trial.metrics = Metrics{.file = "/m.jsonl"};
  std::string noise(3 << 20, '\0');
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(i * 2'654'435'761U >> 13U);
  engine.files["/m.jsonl"] =
      noise + "\n{\"x\": 1}\n{\"x\": " + std::string(100'000'000, '1') + "}\n{\"x\": 2}\n";
  EXPECT_THAT(take(LogEnd::complete), IsEmpty());
  EXPECT_THAT(points("x"), ElementsAre("0:1", "1:2"));
}

TEST_F(TelemetryTest, AMetricMayChangeItsType) {
  trial.metrics = Metrics{.json = true, .file = "/m.csv"};
  engine.say("{\"x\": 1}\n{\"x\": \"two\"}\n{\"x\": [3]}\n{\"x\": {\"x\": 4}}\n{\"x\": true}\n{\"x\": 6.5}\n",
             milliseconds(0));
  engine.files["/m.csv"] = "y\n1\ntwo\n\n1e400\n0x10\n3\n";
  EXPECT_THAT(take(LogEnd::complete), IsEmpty());
  EXPECT_THAT(points("x"), ElementsAre("0:1", "1:6.5"));
  EXPECT_THAT(points("y"), ElementsAre("0:1", "1:inf", "2:3"));
}

TEST_F(TelemetryTest, OfAllLooksTogetherSoManyNamesAreTakenAndThatIsSaidOnce) {
  trial.metrics = Metrics{.json = true, .file = "/m.jsonl"};
  const auto say = [&](std::size_t begin, std::size_t end, milliseconds at) {
    for (std::size_t i = begin; i < end; ++i) engine.say(fmt::format("{{\"m{}\": 1}}\n", i), at);
  };
  say(0, k_metrics_max - 1, milliseconds(0));
  engine.say("x\n", milliseconds(1000));
  EXPECT_THAT(take(), IsEmpty());
  say(k_metrics_max - 1, k_metrics_max + 3, milliseconds(2000));
  say(0, 1, milliseconds(2001));
  engine.say("x\n", milliseconds(3000));
  EXPECT_THAT(take(),
              ElementsAre("of its metrics the first 1000 names are taken, and others are passed over"));
  say(0, 2, milliseconds(4000));
  say(k_metrics_max + 5, k_metrics_max + 6, milliseconds(4000));
  engine.files["/m.jsonl"] = "{\"m0\": 1, \"of the file\": 1}";
  EXPECT_THAT(take(LogEnd::complete), IsEmpty());
  EXPECT_EQ(metrics().size(), k_metrics_max);
  EXPECT_EQ(points("m0").size(), 4U) << "what has been told of once goes on";
  EXPECT_EQ(telemetry.log("a", 1)->passed_over, 5U);
}

// So many lines of ten points each: m0 to m9 have the line's number.
std::string lines_of_ten_points(std::size_t begin, std::size_t end) {
  std::string lines;
  for (std::size_t i = begin; i < end; ++i)
    lines += fmt::format(
        R"({{"m0":{0},"m1":{0},"m2":{0},"m3":{0},"m4":{0},"m5":{0},"m6":{0},"m7":{0},"m8":{0},"m9":{0}}})"
        "\n",
        i);
  return lines;
}

TEST_F(TelemetryTest, PointsBeyondTheLimitCountInTheSummariesOnlyAndThatIsSaidOnce) {
  constexpr std::size_t k_lines = k_kept_points_max / 10;
  trial.metrics = Metrics{.json = true, .file = "/m.jsonl"};
  engine.say(lines_of_ten_points(0, k_lines), milliseconds(0));
  engine.say("x\n", milliseconds(1000));
  EXPECT_THAT(take(), IsEmpty()) << "all of them are kept";
  engine.say("{\"m0\": -7}\n{\"m0\": NaN}\n{\"new\": 2}\n", milliseconds(2000));
  engine.say("x\n", milliseconds(3000));
  EXPECT_THAT(take(), ElementsAre("of its metrics the first 1000000 points are kept; the last, least and "
                                  "greatest values are of all"));
  engine.say("{\"m0\": 5}\n", milliseconds(4000));
  engine.files["/m.jsonl"] = "{\"m1\": 1e9}\n{\"m1\": 3}\n";
  EXPECT_THAT(take(LogEnd::complete), IsEmpty()) << "it has been said";
  EXPECT_EQ(points("m0").size(), k_lines);
  EXPECT_EQ(points("m1").size(), k_lines);
  EXPECT_THAT(points("new"), IsEmpty());
  const auto all = metrics();
  EXPECT_THAT(all, Contains("a.1 m0: 100003 points, last 5, -7 to 99999"));
  EXPECT_THAT(all, Contains("a.1 m1: 100002 points, last 3, 0 to 1000000000"));
  EXPECT_THAT(all, Contains("a.1 m2: 100000 points, last 99999, 0 to 99999"));
  EXPECT_THAT(all, Contains("a.1 new: 1 points, last 2, 2 to 2"));
}

TEST_F(TelemetryTest, OfAFileOfMetricsNoMorePointsThanAreKeptAreInMemory) {
  constexpr std::size_t k_lines = k_kept_points_max / 10 + 50'000;
  engine.files["/m.jsonl"] = lines_of_ten_points(0, k_lines);
  telemetry::MetricLimits limits;
  const telemetry::FileMetrics file = telemetry::read_metric_file(
      engine, {.run = RunId("run1"), .trial = "a", .attempt = 1}, Metrics{.file = "/m.jsonl"}, limits, {});
  EXPECT_EQ(file.fault, "");
  ASSERT_THAT(file.metrics, SizeIs(10));
  for (const LogBatch::Metric& metric : file.metrics) {
    EXPECT_THAT(metric.points, SizeIs(k_kept_points_max / 10)) << metric.name;
    EXPECT_EQ(metric.more.points, 50'000U) << metric.name;
    EXPECT_EQ(metric.more.last, k_lines - 1) << metric.name;
  }
}

TEST_F(TelemetryTest, LongNamesAreIgnored) {
  trial.metrics = Metrics{.json = true, .file = "/m.csv"};
  const std::string longest(256, 'a');
  engine.say(fmt::format("{{\"{}\": 1, \"{}b\": 2}}\n", longest, longest), milliseconds(0));
  engine.files["/m.csv"] = fmt::format("{}c,x\n3,4\n", longest);
  EXPECT_THAT(take(LogEnd::complete), IsEmpty());
  EXPECT_THAT(metrics(), ElementsAre("a.1 " + longest + ": 1 points, last 1, 1 to 1",
                                     "a.1 x: 1 points, last 4, 4 to 4"));
}

TEST_F(TelemetryTest, WhoHasToldNoMetricIsKnownAtTheEnd) {
  trial.metrics = Metrics{.json = true};
  engine.say("loss: 3\n", milliseconds(0));
  engine.say("x\n", milliseconds(1000));
  take();
  EXPECT_THAT(telemetry.silent(), IsEmpty()) << "it goes on";
  take(LogEnd::complete);
  EXPECT_THAT(telemetry.silent(), ElementsAre("a"));
  LogEngine next;
  next.say("{\"loss\": 3}\n", milliseconds(0));
  (void)take_logs(next, {.run = RunId("run1"), .trial = "a", .attempt = 2}, trial, LogEnd::complete,
                  telemetry, {});
  EXPECT_THAT(telemetry.silent(), IsEmpty()) << "its newest attempt has";
}

// What an equal trial has told, elsewhere or in the same run.
class AdoptionTest : public TelemetryTest {
 protected:
  AdoptionTest() {
    trial.metrics = Metrics{.json = true};
    tell(other, "b", 1, "{\"loss\": 3}\n");
    tell(other, "b", 2, "{\"loss\": 9}\n");
  }

  void tell(Telemetry& to, const std::string& name, int attempt, const std::string& line,
            LogEnd end = LogEnd::complete) {
    LogEngine once;
    once.say(line, milliseconds(0));
    once.say("{\"loss\": 2}\n", milliseconds(1000));
    Trial teller = trial;
    teller.name = name;
    (void)take_logs(once, {.run = RunId("any"), .trial = name, .attempt = attempt}, teller, end, to, {});
  }
  // Whether there was anything.
  bool adopt(const std::string& from = "b", int attempt = 1) {
    const Adoption wanted{.trial = "a", .from = from, .attempt = attempt};
    return telemetry.adopt(other, {&wanted, 1}).contains("a");
  }

  Telemetry other{folder.path(), RunId("run0")};
};

TEST_F(AdoptionTest, IsOfTheAttemptThatIsNamedAndWhole) {
  EXPECT_TRUE(adopt());
  EXPECT_EQ(kept({}, k_adopted), "{\"loss\": 3}\n{\"loss\": 2}\n");
  EXPECT_EQ(telemetry.log("a", k_adopted), other.log("b", 1));
  EXPECT_THAT(metrics(), ElementsAre(fmt::format("a.{} loss: 2 points, last 2, 2 to 3", k_adopted)));
  EXPECT_THAT(points("loss"), ElementsAre("0:3", "1:2"));
  EXPECT_EQ(telemetry.complete(), 0U) << "no attempt of this run";
  EXPECT_EQ(other.complete(), 2U);
}

TEST_F(AdoptionTest, GapsStayKnown) {
  (void)other.take("c", 1, std::nullopt, {.is_after_gap = true, .complete = true}, Bytes{1000});
  adopt("c");
  ASSERT_TRUE(telemetry.log("a", k_adopted));
  EXPECT_EQ(telemetry.log("a", k_adopted)->gaps, 1U);
}

TEST_F(AdoptionTest, DoesNotNeedWhatItIsFrom) {
  adopt();
  Telemetry::remove(folder.path(), RunId("run0"));
  EXPECT_THAT(points("loss"), ElementsAre("0:3", "1:2"));
}

TEST_F(AdoptionTest, TwiceIsOnce) {
  adopt();
  tell(other, "c", 1, "{\"loss\": 7}\n");
  adopt("c");
  EXPECT_THAT(points("loss"), ElementsAre("0:7", "1:2"));
  EXPECT_EQ(kept({}, k_adopted), "{\"loss\": 7}\n{\"loss\": 2}\n");
}

TEST_F(AdoptionTest, GoesWhenTheTrialRunsItself) {
  adopt();
  tell(telemetry, "a", 1, "{\"loss\": 8}\n", LogEnd::open);
  EXPECT_FALSE(telemetry.log("a", k_adopted));
  EXPECT_THAT(metrics(), ElementsAre("a.1 loss: 1 points, last 8, 8 to 8"));
}

TEST_F(AdoptionTest, CountsAsNewerThanWhatFailedBefore) {
  tell(telemetry, "a", 1, "{\"loss\": 8}\n");
  adopt();
  EXPECT_THAT(points("loss"), ElementsAre("0:3", "1:2"));
}

TEST_F(AdoptionTest, OfWhatIsNotWholeThereIsNone) {
  tell(other, "c", 1, "{\"loss\": 7}\n", LogEnd::open);
  EXPECT_FALSE(adopt("c"));
  EXPECT_FALSE(adopt("b", 3));
  EXPECT_FALSE(adopt("nobody"));
  EXPECT_EQ(other.packed("c", 1), "");
  EXPECT_FALSE(telemetry.log("a", k_adopted));
}

TEST_F(AdoptionTest, OfTheSameRunMayBeOfWhatIsAdoptedAnewAtOnce) {
  adopt();
  tell(telemetry, "c", 1, "{\"loss\": 7}\n");
  const std::vector<Adoption> wanted{{.trial = "a", .from = "c", .attempt = 1}, {.trial = "d", .from = "a"}};
  EXPECT_THAT(telemetry.adopt(telemetry, wanted), ElementsAre("a", "d"));
  EXPECT_THAT(points("loss"), ElementsAre("0:7", "1:2"));
  std::vector<double> values;
  telemetry.points("d", "loss", [&](const MetricPoint& point) { values.push_back(point.value); });
  EXPECT_THAT(values, ElementsAre(3, 2)) << "as it was";
}

TEST_F(AdoptionTest, MayComePackedFromElsewhere) {
  const std::string packed = other.packed("b", 1);
  EXPECT_LT(packed.size(), 2000U);
  telemetry.adopt(packed, "a");
  EXPECT_THAT(points("loss"), ElementsAre("0:3", "1:2"));
  EXPECT_EQ(kept({}, k_adopted), "{\"loss\": 3}\n{\"loss\": 2}\n");
  Telemetry third(folder.path(), RunId("run3"));
  third.adopt(telemetry.packed("a", k_adopted), "c");
  EXPECT_EQ(third.log("c", k_adopted), other.log("b", 1)) << "and go on from there";
}

TEST_F(AdoptionTest, OfWhatAnEarlierCombuHasPackedIsBroughtUpToDate) {
  const std::string path = folder.path() + "/image.sqlite";
  std::ofstream(path) << telemetry::decompressed(other.packed("b", 1), k_packed_max);
  {
    SQLite::Database image(path, SQLite::OPEN_READWRITE);
    image.exec("ALTER TABLE attempts DROP COLUMN gaps; PRAGMA user_version = 2; VACUUM");
  }
  std::ostringstream earlier;
  earlier << std::ifstream(path).rdbuf();
  telemetry.adopt(telemetry::compressed(earlier.str()), "a");
  EXPECT_THAT(points("loss"), ElementsAre("0:3", "1:2"));
}

TEST_F(AdoptionTest, OfWhatNobodyHasPackedIsAFault) {
  const std::string packed = other.packed("b", 1);
  const auto fault = [&](const std::string& bytes) -> std::string {
    try {
      telemetry.adopt(bytes, "a");
    } catch (const Error& error) {
      return error.kind() == ErrorKind::corrupt ? error.what() : "another kind";
    }
    return "";
  };
  EXPECT_THAT(fault(""), HasSubstr("damaged"));
  EXPECT_THAT(fault(packed.substr(0, packed.size() / 2)), HasSubstr("damaged"));
  EXPECT_THAT(fault(telemetry::compressed("rubbish")),
              HasSubstr("a: the telemetry of an equal trial is refused: "));
  EXPECT_THAT(fault(telemetry::compressed("")), HasSubstr("a: the telemetry of an equal trial is refused: "));
  std::string image = telemetry::decompressed(packed, std::size_t{1} << 30U);
  std::string newer = image;
  newer[63] = 99;  // user_version: https://www.sqlite.org/fileformat.html
  EXPECT_THAT(fault(telemetry::compressed(newer)),
              HasSubstr("its database has the schema version 99; this combu knows 1 to 3"));
  for (std::size_t i = 100; i < image.size(); ++i) image[i] = static_cast<char>(i * 7);
  EXPECT_THAT(fault(telemetry::compressed(image)),
              HasSubstr("a: the telemetry of an equal trial is refused: its database is damaged"));
  EXPECT_FALSE(telemetry.log("a", k_adopted));
  EXPECT_THAT(metrics(), IsEmpty());
}

// A quadratic search takes half an hour.
TEST(Lines, OfCarriageReturnsTakeLinearTime) {
  std::size_t lines = 0;
  telemetry::Lines reader([&](std::string_view, Instant) { ++lines; });
  const std::string text(8 << 20, '\r');
  reader.feed(text, k_begin);
  EXPECT_EQ(lines, text.size());
}

TEST(MetricLines, AreBoundedInNames) {
  telemetry::MetricLimits limits;
  MetricLines lines(MetricLines::Form::json, limits);
  for (std::size_t i = 0; i < k_metrics_max + 10; ++i) lines.take(fmt::format("{{\"m{}\": 1}}", i), k_begin);
  EXPECT_EQ(lines.taken().size(), k_metrics_max);
  EXPECT_EQ(limits.passed_over(), 10U);
}

}  // namespace
}  // namespace combu::test
