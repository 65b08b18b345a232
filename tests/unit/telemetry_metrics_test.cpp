// Metrics in lines of JSON, in text, and in files.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "telemetry/metric_file.hpp"
#include "telemetry/metrics.hpp"
#include "telemetry_fixture.hpp"

namespace combu::test {
namespace {

using std::chrono::milliseconds;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST_F(TelemetryTest, MetricsAreIngestedWhileTheTrialRuns) {
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

TEST_F(TelemetryTest, ALineWrittenInPartsIsReadAsOneLine) {
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

TEST_F(TelemetryTest, ALineAcrossTwoBatchesIsReadAsOneLine) {
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

TEST_F(TelemetryTest, AnOpenLineOfStandardErrorDoesNotDelayMetrics) {
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

TEST_F(TelemetryTest, AProgressBarStateWrittenInPartsIsReadAsOneLine) {
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

TEST_F(TelemetryTest, AProgressBarThatNeverEndsIsStoredWhileItIsDrawn) {
  const std::string part = fmt::format("{}\r{}", std::string(8000, 'a'), std::string(8000, 'b'));
  for (int i = 0; i < 200; ++i) engine.say(part, milliseconds(i));
  engine.say("later\n", milliseconds(5000), LogStream::err);
  take();
  EXPECT_GT(kept().size(), telemetry::k_line_max);
}

TEST_F(TelemetryTest, ALineThatIsTooLongForMetricsIsStoredInParts) {
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

TEST_F(TelemetryTest, NanInfinityAndMalformedLinesDoNoHarm) {
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

TEST_F(TelemetryTest, TheNameOfANestedMetricContainsTheNamesOfItsObjects) {
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

TEST_F(TelemetryTest, TheFirstOfSeveralNumbersWithTheSameNameCounts) {
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

TEST_F(TelemetryTest, AllSpellingsOfNanAndInfinityAreAccepted) {
  trial.metrics = Metrics{.json = true};
  for (const char* const one : {"nan", "-nan", "NAN", "inf", "-inf", "+Inf", "-INFINITY", "1e999", "-1e999"})
    engine.say(fmt::format("{{\"x\": {}, \"name\": \"an inf, \\\"nan\", \"y\": 2}}\n", one), milliseconds(0));
  engine.say("{\"x\": nano, \"y\": 3}\n{\"x\": 1e-999, \"y\": 4}\n", milliseconds(1));
  take(LogEnd::complete);
  EXPECT_THAT(points("x"), ElementsAre("0:nan", "1:nan", "2:nan", "3:inf", "4:-inf", "5:inf", "6:-inf",
                                       "7:inf", "8:-inf", "9:0"));
  EXPECT_THAT(points("y"), SizeIs(10)) << "what else is in such a line";
}

TEST_F(TelemetryTest, AMetricWithOnlyNanHasNoLeastValue) {
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

TEST_F(TelemetryTest, AFileOfMetricsMayHaveAnyTime) {
  engine.files["/m.jsonl"] = "{\"loss\": 2}";
  for (const std::int64_t seconds : {32'503'680'000, -32'503'680'000}) {
    engine.modified = seconds;
    telemetry::MetricLimits limits;
    const telemetry::FileMetrics file = telemetry::read_metric_file(
        engine, {.run = RunId("run1"), .trial = "a", .attempt = 1}, Metrics{.file = "/m.jsonl"}, limits, {});
    ASSERT_THAT(file.metrics, SizeIs(1)) << file.fault;
    ASSERT_THAT(file.metrics.front().points, SizeIs(1));
    EXPECT_EQ(file.metrics.front().points.front().at, file_time(seconds));
  }
}

TEST_F(TelemetryTest, AMissingFileOfMetricsIsReported) {
  trial.metrics = Metrics{.file = "/m.jsonl"};
  EXPECT_THAT(take(LogEnd::complete), ElementsAre("the metrics file /m.jsonl does not exist"));
  EXPECT_TRUE(telemetry.log("a", 1)->complete);
}

TEST_F(TelemetryTest, AnUnreadableFileOfMetricsIsReportedAndTheLogIsComplete) {
  trial.metrics = Metrics{.file = "/m.jsonl"};
  engine.is_unreadable = true;
  engine.say("said\n", milliseconds(1));
  EXPECT_THAT(take(LogEnd::complete), ElementsAre("the metrics file /m.jsonl cannot be read: it is a loop"));
  ASSERT_TRUE(telemetry.log("a", 1));
  EXPECT_TRUE(telemetry.log("a", 1)->complete);
}

TEST_F(TelemetryTest, AFileOfMetricsIsReadWithAFullDisk) {
  trial.metrics = Metrics{.file = "/m.jsonl"};
  for (int i = 0; i < 100'000; ++i) engine.files["/m.jsonl"] += fmt::format("{{\"x\": {}}}\n", i);
  engine.before_copy = &full_disk;
  EXPECT_THAT(take(LogEnd::complete), IsEmpty());
  EXPECT_EQ(points("x").size(), 100'000U);
  EXPECT_TRUE(telemetry.log("a", 1)->complete);
}

TEST_F(TelemetryTest, ATruncatedFileOfMetricsIsReadAgain) {
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

TEST_F(TelemetryTest, OnlyTheBeginningOfALongFileOfMetricsIsRead) {
  engine.files["/m.jsonl"] = "{\"x\": 1}\n{\"x\": 2}\n" + std::string(64 << 20, '\n') + "{\"x\": 3}\n";
  const auto read = [&](Bytes size_max) {
    telemetry::MetricLimits limits;
    return telemetry::read_metric_file(engine, {.run = RunId("run1"), .trial = "a", .attempt = 1},
                                       Metrics{.file = "/m.jsonl"}, limits, {}, size_max);
  };
  const telemetry::FileMetrics some = read(Bytes{14});
  EXPECT_EQ(some.fault, "the metrics file /m.jsonl is larger than 14 B: combu reads only its beginning");
  ASSERT_THAT(some.metrics, SizeIs(1));
  EXPECT_THAT(some.metrics[0].points, SizeIs(1)) << "half a line is none";
  EXPECT_LT(engine.copied, engine.files["/m.jsonl"].size() / 2) << "the rest is not requested";
  const telemetry::FileMetrics all = read(Bytes{static_cast<std::int64_t>(engine.files["/m.jsonl"].size())});
  EXPECT_EQ(all.fault, "");
  EXPECT_THAT(all.metrics[0].points, SizeIs(3));
}

TEST_F(TelemetryTest, AFileOfMetricsMayContainNoiseAndAVeryLongLine) {
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

TEST_F(TelemetryTest, TheNumberOfNamesIsLimitedAcrossReadingsAndReportedOnce) {
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
  EXPECT_THAT(take(), ElementsAre("the trial has more than 1000 metrics: combu keeps only the first ones"));
  say(0, 2, milliseconds(4000));
  say(k_metrics_max + 5, k_metrics_max + 6, milliseconds(4000));
  engine.files["/m.jsonl"] = "{\"m0\": 1, \"of the file\": 1}";
  EXPECT_THAT(take(LogEnd::complete), IsEmpty());
  EXPECT_EQ(metrics().size(), k_metrics_max);
  EXPECT_EQ(points("m0").size(), 4U) << "what has been told of once goes on";
  EXPECT_EQ(telemetry.log("a", 1)->passed_over, 5U);
}

// Returns lines with ten points each. The metrics m0 to m9 have the number of the line as their value.
std::string lines_of_ten_points(std::size_t begin, std::size_t end) {
  std::string lines;
  for (std::size_t i = begin; i < end; ++i)
    lines += fmt::format(
        R"({{"m0":{0},"m1":{0},"m2":{0},"m3":{0},"m4":{0},"m5":{0},"m6":{0},"m7":{0},"m8":{0},"m9":{0}}})"
        "\n",
        i);
  return lines;
}

TEST_F(TelemetryTest, PointsBeyondTheLimitCountOnlyInSummariesAndAreReportedOnce) {
  constexpr std::size_t k_lines = k_kept_points_max / 10;
  trial.metrics = Metrics{.json = true, .file = "/m.jsonl"};
  engine.say(lines_of_ten_points(0, k_lines), milliseconds(0));
  engine.say("x\n", milliseconds(1000));
  EXPECT_THAT(take(), IsEmpty()) << "all of them are kept";
  engine.say("{\"m0\": -7}\n{\"m0\": NaN}\n{\"new\": 2}\n", milliseconds(2000));
  engine.say("x\n", milliseconds(3000));
  EXPECT_THAT(take(), ElementsAre("the metrics have more than 1000000 points: combu keeps only the first "
                                  "ones; the last, least and greatest values include all points"));
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

TEST_F(TelemetryTest, AFileOfMetricsHasOnlyTheKeptPointsInMemory) {
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

TEST_F(TelemetryTest, SilentNamesEndedTrialsWithoutMetrics) {
  trial.metrics = Metrics{.json = true};
  engine.say("loss: 3\n", milliseconds(0));
  engine.say("x\n", milliseconds(1000));
  take();
  EXPECT_THAT(telemetry.silent(), IsEmpty()) << "it goes on";
  take(LogEnd::complete);
  EXPECT_THAT(telemetry.silent(), ElementsAre("a"));
  LogEngine next;
  next.say("{\"loss\": 3}\n", milliseconds(0));
  (void)ingest_logs(next, {.run = RunId("run1"), .trial = "a", .attempt = 2}, trial, LogEnd::complete,
                    telemetry, {});
  EXPECT_THAT(telemetry.silent(), IsEmpty()) << "its newest attempt has";
}

}  // namespace
}  // namespace combu::test
