// Logs and metrics of an equal trial, reused for another trial.

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "telemetry/metrics.hpp"
#include "telemetry/pack.hpp"
#include "telemetry_fixture.hpp"

namespace combu::test {
namespace {

using std::chrono::milliseconds;
using telemetry::MetricLines;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// `other` contains the telemetry of the equal trial "b".
class AdoptionTest : public TelemetryTest {
 protected:
  AdoptionTest() {
    trial.metrics = Metrics{.json = true};
    ingest(other, "b", 1, "{\"loss\": 3}\n");
    ingest(other, "b", 2, "{\"loss\": 9}\n");
  }

  void ingest(Telemetry& to, const std::string& name, int attempt, const std::string& line,
              LogEnd end = LogEnd::complete) {
    LogEngine once;
    once.say(line, milliseconds(0));
    once.say("{\"loss\": 2}\n", milliseconds(1000));
    Trial source = trial;
    source.name = name;
    (void)ingest_logs(once, {.run = RunId("any"), .trial = name, .attempt = attempt}, source, end, to, {});
  }
  // Returns true if a complete attempt was found.
  bool adopt(const std::string& from = "b", int attempt = 1) {
    const Adoption wanted{.trial = "a", .from = from, .attempt = attempt};
    return telemetry.adopt(other, {&wanted, 1}).contains("a");
  }

  Telemetry other{folder.path(), RunId("run0")};
};

TEST_F(AdoptionTest, TheNamedCompleteAttemptIsCopied) {
  EXPECT_TRUE(adopt());
  EXPECT_EQ(kept({}, k_adopted), "{\"loss\": 3}\n{\"loss\": 2}\n");
  EXPECT_EQ(telemetry.log("a", k_adopted), other.log("b", 1));
  EXPECT_THAT(metrics(), ElementsAre(fmt::format("a.{} loss: 2 points, last 2, 2 to 3", k_adopted)));
  EXPECT_THAT(points("loss"), ElementsAre("0:3", "1:2"));
  EXPECT_EQ(telemetry.complete(), 0U) << "no attempt of this run";
  EXPECT_EQ(other.complete(), 2U);
}

TEST_F(AdoptionTest, GapsAreCopied) {
  (void)other.append("c", 1, std::nullopt, {.is_after_gap = true, .complete = true}, Bytes{1000});
  adopt("c");
  ASSERT_TRUE(telemetry.log("a", k_adopted));
  EXPECT_EQ(telemetry.log("a", k_adopted)->gaps, 1U);
}

TEST_F(AdoptionTest, TheCopyDoesNotNeedItsSource) {
  adopt();
  Telemetry::remove(folder.path(), RunId("run0"));
  EXPECT_THAT(points("loss"), ElementsAre("0:3", "1:2"));
}

TEST_F(AdoptionTest, ASecondAdoptionReplacesTheFirst) {
  adopt();
  ingest(other, "c", 1, "{\"loss\": 7}\n");
  adopt("c");
  EXPECT_THAT(points("loss"), ElementsAre("0:7", "1:2"));
  EXPECT_EQ(kept({}, k_adopted), "{\"loss\": 7}\n{\"loss\": 2}\n");
}

TEST_F(AdoptionTest, RunningTheTrialDeletesTheAdoptedAttempt) {
  adopt();
  ingest(telemetry, "a", 1, "{\"loss\": 8}\n", LogEnd::open);
  EXPECT_FALSE(telemetry.log("a", k_adopted));
  EXPECT_THAT(metrics(), ElementsAre("a.1 loss: 1 points, last 8, 8 to 8"));
}

TEST_F(AdoptionTest, TheAdoptedAttemptCountsAsNewest) {
  ingest(telemetry, "a", 1, "{\"loss\": 8}\n");
  adopt();
  EXPECT_THAT(points("loss"), ElementsAre("0:3", "1:2"));
}

TEST_F(AdoptionTest, AnIncompleteOrMissingAttemptIsNotAdopted) {
  ingest(other, "c", 1, "{\"loss\": 7}\n", LogEnd::open);
  EXPECT_FALSE(adopt("c"));
  EXPECT_FALSE(adopt("b", 3));
  EXPECT_FALSE(adopt("nobody"));
  EXPECT_EQ(other.packed("c", 1), "");
  EXPECT_FALSE(telemetry.log("a", k_adopted));
}

TEST_F(AdoptionTest, AnAdoptedAttemptIsReplacedAndAdoptedInOneCall) {
  adopt();
  ingest(telemetry, "c", 1, "{\"loss\": 7}\n");
  const std::vector<Adoption> wanted{{.trial = "a", .from = "c", .attempt = 1}, {.trial = "d", .from = "a"}};
  EXPECT_THAT(telemetry.adopt(telemetry, wanted), ElementsAre("a", "d"));
  EXPECT_THAT(points("loss"), ElementsAre("0:7", "1:2"));
  std::vector<double> values;
  telemetry.points("d", "loss", [&](const MetricPoint& point) { values.push_back(point.value); });
  EXPECT_THAT(values, ElementsAre(3, 2)) << "as it was";
}

TEST_F(AdoptionTest, PackedTelemetryIsAdopted) {
  const std::string packed = other.packed("b", 1);
  EXPECT_LT(packed.size(), 2000U);
  telemetry.adopt(packed, "a");
  EXPECT_THAT(points("loss"), ElementsAre("0:3", "1:2"));
  EXPECT_EQ(kept({}, k_adopted), "{\"loss\": 3}\n{\"loss\": 2}\n");
  Telemetry third(folder.path(), RunId("run3"));
  third.adopt(telemetry.packed("a", k_adopted), "c");
  EXPECT_EQ(third.log("c", k_adopted), other.log("b", 1)) << "and go on from there";
}

TEST_F(AdoptionTest, PackedTelemetryOfAnEarlierCombuIsUpgraded) {
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

TEST_F(AdoptionTest, OtherBytesThanPackedTelemetryAreRefused) {
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
              HasSubstr("a: the telemetry of an equal trial is invalid: "));
  EXPECT_THAT(fault(telemetry::compressed("")), HasSubstr("a: the telemetry of an equal trial is invalid: "));
  std::string image = telemetry::decompressed(packed, std::size_t{1} << 30U);
  std::string newer = image;
  newer[63] = 99;  // user_version: https://www.sqlite.org/fileformat.html
  EXPECT_THAT(fault(telemetry::compressed(newer)),
              HasSubstr("the database has the schema version 99; this combu supports 1 to 3"));
  for (std::size_t i = 100; i < image.size(); ++i) image[i] = static_cast<char>(i * 7);
  EXPECT_THAT(fault(telemetry::compressed(image)),
              HasSubstr("a: the telemetry of an equal trial is invalid: the database is damaged"));
  EXPECT_FALSE(telemetry.log("a", k_adopted));
  EXPECT_THAT(metrics(), IsEmpty());
}

// With a quadratic search, this would take half an hour.
TEST(Lines, CarriageReturnsTakeLinearTime) {
  std::size_t lines = 0;
  telemetry::Lines reader([&](std::string_view, Instant) { ++lines; });
  const std::string text(8 << 20, '\r');
  reader.feed(text, k_begin);
  EXPECT_EQ(lines, text.size());
}

TEST(MetricLines, TheNumberOfNamesIsLimited) {
  telemetry::MetricLimits limits;
  MetricLines lines(MetricLines::Form::json, limits);
  for (std::size_t i = 0; i < k_metrics_max + 10; ++i) lines.add(fmt::format("{{\"m{}\": 1}}", i), k_begin);
  EXPECT_EQ(lines.take_points().size(), k_metrics_max);
  EXPECT_EQ(limits.passed_over(), 10U);
}

}  // namespace
}  // namespace combu::test
