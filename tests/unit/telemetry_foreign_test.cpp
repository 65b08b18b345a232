// Packed telemetry of others from a shared bucket. It may be damaged or malicious.

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>
#include <stop_token>

#include "combu/database.hpp"
#include "combu/telemetry.hpp"
#include "error_of.hpp"
#include "record_folder.hpp"
#include "telemetry/pack.hpp"

namespace combu::test {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* k_endless = "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n) ";
constexpr std::size_t k_page = 4096;

// Returns a zstd frame (RFC 8878). Each block has 4 bytes and repeats one byte 128 KiB times.
std::string frame_of_repeats(std::uint64_t claimed, std::size_t blocks) {
  constexpr std::uint32_t k_block = 128U << 10U;
  std::string frame("\x28\xB5\x2F\xFD\xC0\x38", 6);  // 8 bytes of content size, a window of 128 KiB
  for (unsigned shift = 0; shift < 64; shift += 8) frame += static_cast<char>(claimed >> shift);
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::uint32_t head = (i + 1 == blocks ? 1U : 0U) | 1U << 1U | k_block << 3U;
    for (unsigned shift = 0; shift < 24; shift += 8) frame += static_cast<char>(head >> shift);
    frame += '\0';
  }
  return frame;
}

long memory_max_kib() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return use.ru_maxrss;
}

class ForeignTelemetry : public testing::Test {
 protected:
  ForeignTelemetry() { give("b", {"first\n", "second\n"}, {{"loss", {3, 2}}, {"acc", {0.5}}}); }

  struct Series {
    std::string name;
    std::vector<double> values;
  };

  // Stores a log and metrics as a complete attempt 1 in `other`.
  void give(const std::string& trial, const std::vector<std::string>& log,
            const std::vector<Series>& series) {
    std::vector<LogPiece> pieces;
    for (const std::string& text : log)
      pieces.push_back({.stream = LogStream::out, .text = text, .at = begin});
    std::vector<LogBatch::Metric> metrics;
    for (const Series& one : series) {
      metrics.push_back({.name = one.name, .points = {}});
      for (const double value : one.values)
        metrics.back().points.push_back({.step = std::nan(""), .at = begin, .value = value});
    }
    (void)other.append(trial, 1, std::nullopt, {.pieces = pieces, .metrics = metrics, .complete = true},
                       Bytes{1LL << 30U});
  }

  std::string image(const std::string& trial = "b") {
    return telemetry::decompressed(other.packed(trial, 1), k_packed_max);
  }

  // Returns the image after `sql` was executed.
  std::string changed(const std::string& sql) {
    const std::string path = folder.path() + "/image.sqlite";
    std::ofstream(path, std::ios::trunc) << image();
    {
      SQLite::Database database(path, SQLite::OPEN_READWRITE);
      sqlite3_db_config(database.getHandle(), SQLITE_DBCONFIG_DEFENSIVE, 0, nullptr);
      database.exec("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY");
      database.exec(sql);
    }
    std::ostringstream bytes;
    bytes << std::ifstream(path).rdbuf();
    return bytes.str();
  }

  // Returns why the packed telemetry is refused. Returns an empty text if it is stored as trial `a`. Fails if
  // a refusal changes anything.
  std::string refusal_of_packed(const std::string& packed, const std::stop_token& stop = {}) {
    try {
      telemetry.adopt(packed, "a", stop);
    } catch (const Error& error) {
      EXPECT_FALSE(telemetry.log("a", k_adopted));
      EXPECT_EQ(error.kind(), stop.stop_requested() ? ErrorKind::cancelled : ErrorKind::corrupt);
      return error.what();
    }
    return "";
  }
  std::string refusal(const std::string& image) { return refusal_of_packed(telemetry::compressed(image)); }
  std::string refusal_after(const std::string& sql) { return refusal(changed(sql)); }

  std::string log_text() {
    std::string text;
    telemetry.read_log("a", k_adopted, std::nullopt, [&](const LogPiece& piece) {
      text += piece.text;
      return true;
    });
    return text;
  }
  std::vector<double> values(const std::string& metric) {
    std::vector<double> values;
    telemetry.points("a", metric, [&](const MetricPoint& point) { values.push_back(point.value); });
    return values;
  }

  const Instant begin = *parse_timestamp("2026-01-31T12:00:00Z");
  Folder folder{"foreign"};
  Telemetry telemetry{folder.path(), RunId("run1")};
  Telemetry other{folder.path(), RunId("run0")};
};

TEST_F(ForeignTelemetry, PackedTelemetryIsStoredUnchanged) {
  const double infinite = std::numeric_limits<double>::infinity();
  std::vector<double> many(20000);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<double>(i) / 7;
  give("c", {std::string(3U << 20U, 'x') + "\n", "end\n"},
       {{"odd", {infinite, -infinite, 0}}, {"many", many}});
  EXPECT_EQ(refusal_of_packed(other.packed("c", 1)), "");
  EXPECT_EQ(log_text(), std::string(3U << 20U, 'x') + "\nend\n");
  EXPECT_THAT(values("odd"), ElementsAre(infinite, -infinite, 0));
  EXPECT_EQ(values("many"), many);
  EXPECT_EQ(telemetry.log("a", k_adopted), other.log("c", 1));
}

TEST_F(ForeignTelemetry, NanIsStoredAsNan) {
  give("c", {}, {{"odd", {std::nan("")}}});
  EXPECT_EQ(refusal_of_packed(other.packed("c", 1)), "");
  ASSERT_EQ(values("odd").size(), 1U);
  EXPECT_TRUE(std::isnan(values("odd").front()));
}

TEST_F(ForeignTelemetry, EveryEarlierVersionIsAccepted) {
  const std::string two = "ALTER TABLE attempts DROP COLUMN gaps; PRAGMA user_version = 2;";
  const std::string one = two + "ALTER TABLE attempts DROP COLUMN passed_over; PRAGMA user_version = 1;";
  for (const std::string& sql : {two, one, one + "VACUUM"}) {
    EXPECT_EQ(refusal_after(sql), "") << sql;
    EXPECT_THAT(values("loss"), ElementsAre(3, 2));
    EXPECT_EQ(log_text(), "first\nsecond\n");
  }
}

TEST_F(ForeignTelemetry, OtherObjectsThanCombusAreRefusedBeforeTheyAreRead) {
  const std::string endless = k_endless;
  const auto view = [&](const std::string& table, const std::string& columns) {
    return fmt::format("DROP TABLE {0}; CREATE VIEW {0} AS {1} SELECT {2} FROM n", table, endless, columns);
  };
  const std::vector<std::pair<std::string, std::string>> cases{
      {view("attempts", "1 number, 'it' trial, i attempt, 1 complete"), "has the view `attempts`"},
      {view("packs", "i number, 1 attempt, 1 size, x'00' data"), "has the view `packs`"},
      {view("series", "i number, 1 attempt, i metric"), "has the view `series`"},
      {view("points", "1 series, i place, 1 step, 1 at, 1 value"), "has the view `points`"},
      {"DROP VIEW metrics; CREATE VIEW metrics AS " + endless + "SELECT i FROM n",
       "declares the view `metrics` differently"},
      {"CREATE VIEW more AS SELECT 1", "has the view `more`, which is not in combu's schema"},
      {"CREATE TRIGGER more AFTER INSERT ON packs BEGIN DELETE FROM packs; END", "has the trigger `more`"},
      {"CREATE TABLE more (a)", "has the table `more`"},
      {"CREATE INDEX more ON packs (size)", "has the index `more`"},
      {"DROP INDEX packs_of_attempt; CREATE INDEX packs_of_attempt ON packs (abs(attempt))",
       "declares the index `packs_of_attempt` differently"},
      {"DROP INDEX packs_of_attempt", "lacks the index `packs_of_attempt`"},
      {"DROP TABLE points", "lacks the table `points`"},
      {"ALTER TABLE packs ADD COLUMN cost GENERATED ALWAYS AS (length(printf('%.*c', 1000000000, 'x')))",
       "declares the table `packs` differently"},
      {"ALTER TABLE series ADD COLUMN more INTEGER CHECK (more < 1)",
       "declares the table `series` differently"},
      {"ALTER TABLE attempts ADD COLUMN more", "declares the table `attempts` differently"},
      {"DROP TABLE packs; CREATE TABLE packs (number INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, size "
       "INTEGER "
       "NOT NULL, data BLOB NOT NULL) WITHOUT ROWID; CREATE INDEX packs_of_attempt ON packs (attempt, "
       "number)",
       "declares the table `packs` differently"},
      {"PRAGMA writable_schema = ON; INSERT INTO sqlite_schema VALUES ('table', 'more', 'more', 0, "
       "'CREATE VIRTUAL TABLE more USING dbstat(main)')",
       "has the table `more`"},
      {"PRAGMA writable_schema = ON; UPDATE sqlite_schema SET tbl_name = 'series' WHERE name = "
       "'packs_of_attempt'",
       ""},
      {"PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = 'CREATE TABLE points (' || "
       "substr(hex(zeroblob(100000)), 1, 100000) || ')' WHERE name = 'points'",
       ""},
      {"PRAGMA application_id = 1", "was not made by combu"},
      {"PRAGMA user_version = 0", "has the schema version 0"},
      {"PRAGMA user_version = -1", "has the schema version -1"},
      {"PRAGMA user_version = 1", "declares the table `attempts` differently"},
  };
  for (const auto& [sql, reason] : cases) {
    std::string image;
    try {
      image = changed(sql);
    } catch (const SQLite::Exception& exception) {
      ADD_FAILURE() << sql << ": " << exception.what();
      continue;
    }
    EXPECT_THAT(refusal(image),
                HasSubstr("a: the telemetry of an equal trial is invalid: the database " + reason))
        << sql;
  }
}

TEST_F(ForeignTelemetry, ManyObjectsAreRefusedAfterTheFirst) {
  const std::string image = changed(std::string("PRAGMA writable_schema = ON;") + k_endless +
                                    "INSERT INTO sqlite_schema SELECT 'table', 't' || i, 't' || i, 2, "
                                    "'CREATE TABLE t' || i || '(a)' FROM n LIMIT 20000");
  EXPECT_THAT(refusal(image), HasSubstr("the database takes more steps to read than"));
}

TEST_F(ForeignTelemetry, ValuesThatPackedCannotWriteAreRefused) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"DELETE FROM attempts", "holds no attempt"},
      {"INSERT INTO attempts VALUES (NULL, 'more', 1, 1, 0, 0, 0, 0, 0, 0)", "holds more than one attempt"},
      {"UPDATE attempts SET trial = 'b'", "a wrong name or number"},
      {"UPDATE attempts SET attempt = 1", "a wrong name or number"},
      {"UPDATE attempts SET complete = 0", "log is not complete"},
      {"UPDATE attempts SET complete = 'yes'", "not an integer"},
      {"UPDATE attempts SET size = 'text'", "not an integer"},
      {"UPDATE attempts SET size = x'00'", "not an integer"},
      {"UPDATE attempts SET size = 1.5", "not an integer"},
      {"UPDATE attempts SET gaps = 'text'", "not an integer"},
      {"UPDATE attempts SET size = -1", "is negative"},
      {"UPDATE attempts SET at_until = -1", "is negative"},
      {"UPDATE attempts SET passed_over = -9223372036854775808", "is negative"},
      {"UPDATE attempts SET gaps = -1", "is negative"},
      {"UPDATE attempts SET dropped = size + 1", "the log has more dropped bytes than written bytes"},
      {"UPDATE attempts SET until = 9223372036854775807", "out of range"},
      {"UPDATE packs SET size = size + 1", "does not match its data"},
      {"UPDATE packs SET size = 'text'", "wrong type"},
      {"UPDATE packs SET data = 'text'", "wrong type"},
      {"UPDATE packs SET data = x''", "damaged"},
      {"UPDATE packs SET data = zeroblob(100000)", "damaged"},
      {"UPDATE packs SET attempt = 77", "belongs to no attempt"},
      {"UPDATE packs SET number = -1", "out of order"},
      {"UPDATE series SET metric = x'00' WHERE metric = 'loss'", "wrong type"},
      {"UPDATE series SET metric = printf('%.*c', 2000000, 'x') WHERE metric = 'loss'", "longer than a line"},
      {"UPDATE series SET points = -1", "is negative"},
      {"UPDATE series SET points = 1 WHERE metric = 'loss'", "exceed the number in table `series`"},
      {"UPDATE series SET points = 'x'", "wrong type"},
      {"UPDATE series SET attempt = 77", "belongs to no attempt"},
      {"UPDATE series SET last = 'text'", "wrong type"},
      {"UPDATE series SET least = x'00'", "wrong type"},
      {"UPDATE series SET greatest = 'nan'", "wrong type"},
      {"UPDATE points SET series = 77 WHERE series = 1", "belong to no series"},
      {"UPDATE points SET place = -1 WHERE place = 0", "out of order"},
      {"UPDATE points SET place = 'text' WHERE place = 1", "not an integer"},
      {"UPDATE points SET step = 'text'", "not a number"},
      {"UPDATE points SET step = NULL", "not a number"},
      {"UPDATE points SET value = 'text'", "not a number"},
      {"UPDATE points SET at = 'text'", "not an integer"},
      {"UPDATE points SET at = 9223372036854775807", "out of range"},
      {"UPDATE points SET at = -9223372036854775807", "out of range"},
  };
  for (const auto& [sql, reason] : cases)
    EXPECT_THAT(refusal_after(sql),
                AllOf(HasSubstr("the telemetry of an equal trial is invalid: "), HasSubstr(reason)))
        << sql;
}

TEST_F(ForeignTelemetry, MoreMetricsThanAnAttemptCanHaveAreRefused) {
  std::string sql = "BEGIN;";
  for (std::size_t i = 0; i < k_metrics_max; ++i)
    sql += fmt::format("INSERT INTO series VALUES (NULL, 1, 'm{}', 0, NULL, NULL, NULL);", i);
  EXPECT_THAT(refusal_after(sql + "COMMIT"), HasSubstr("more than 1000 metrics"));
}

TEST_F(ForeignTelemetry, AFrameThatExpandsTo2GiBIsRefusedWithLittleMemory) {
  const std::string bomb = frame_of_repeats(1ULL << 31U, 16384);
  ASSERT_LT(bomb.size(), 66000U);
  const long before = memory_max_kib();
  EXPECT_THAT(refusal_of_packed(bomb), HasSubstr("a compressed frame is larger than 256 MiB"));
  EXPECT_THROW(
      (void)telemetry::unpack(frame_of_repeats(1ULL << 63U, 16384), [](const LogPiece&) { return true; }),
      Error);
  // The same frame as a pack of the log.
  const std::string path = folder.path() + "/packs.sqlite";
  std::ofstream(path) << image();
  {
    SQLite::Database database(path, SQLite::OPEN_READWRITE);
    SQLite::Statement set(database, "UPDATE packs SET data = ?");
    set.bindNoCopy(1, bomb.data(), static_cast<int>(bomb.size()));
    set.exec();
  }
  std::ostringstream bytes;
  bytes << std::ifstream(path).rdbuf();
  EXPECT_THAT(refusal(bytes.str()), HasSubstr("a compressed frame is larger than"));
  EXPECT_LT(memory_max_kib() - before, 256L << 10U);
}

TEST_F(ForeignTelemetry, AFrameThatClaimsALargeSizeTakesLittleMemory) {
  const long before = memory_max_kib();
  const std::string frame = frame_of_repeats((1ULL << 30U) + 1, 4);
  EXPECT_THROW((void)telemetry::decompressed(frame, std::size_t{1} << 31U), Error);
  EXPECT_LT(memory_max_kib() - before, 256L << 10U);
}

TEST_F(ForeignTelemetry, TruncatedTelemetryIsRefused) {
  const std::string packed = other.packed("b", 1);
  for (std::size_t size = 0; size < packed.size(); size += 1 + packed.size() / 50)
    EXPECT_THAT(refusal_of_packed(packed.substr(0, size)),
                HasSubstr("the telemetry of an equal trial is invalid: "))
        << size;
  EXPECT_THAT(refusal_of_packed(packed + "x"), HasSubstr("the telemetry of an equal trial is invalid: "));
  EXPECT_THAT(refusal_of_packed(packed + packed), HasSubstr("the telemetry of an equal trial is invalid: "));
  const std::string whole = image();
  for (std::size_t size = 0; size < whole.size(); size += 500)
    EXPECT_THAT(refusal(whole.substr(0, size)), HasSubstr("the telemetry of an equal trial is invalid: "))
        << size;
}

TEST_F(ForeignTelemetry, TelemetryWithChangedBytesIsRefusedOrReadable) {
  std::vector<double> many(3000, 1);
  give("c", {"first\n", "second\n"}, {{"loss", many}});
  const std::string whole = image("c");
  std::mt19937 random(20260131);
  std::size_t refused = 0;
  for (int i = 0; i < 400; ++i) {
    std::string image = whole;
    for (unsigned changes = 1 + random() % 8; changes > 0; --changes) {
      // Half of the changes are in the headers of the pages.
      const std::size_t page = random() % (image.size() / k_page) * k_page;
      image[page + random() % (random() % 2 == 0 ? 120 : k_page)] = static_cast<char>(random());
    }
    try {
      telemetry.adopt(telemetry::compressed(image), "a");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::corrupt);
      ++refused;
      continue;
    }
    telemetry.read_log("a", k_adopted, std::nullopt, [](const LogPiece&) { return true; });
    telemetry.metrics([&](const MetricSummary& one) { EXPECT_LE(one.points, many.size()) << i; });
  }
  EXPECT_GT(refused, 100U);
}

TEST_F(ForeignTelemetry, APageThatIsLinkedTwiceIsRefused) {
  give("c", {}, {{"loss", std::vector<double>(3000, 1)}});
  std::string image = this->image("c");
  // Finds an interior page of an index (https://www.sqlite.org/fileformat.html#b_tree_pages), and lets its
  // first two cells have the same child page.
  std::size_t page = k_page;
  while (page < image.size() && image[page] != 2) page += k_page;
  ASSERT_LT(page, image.size());
  const auto cell = [&](std::size_t index) {
    const std::size_t at = page + 12 + 2 * index;
    return page + static_cast<unsigned char>(image[at]) * 256U + static_cast<unsigned char>(image[at + 1]);
  };
  std::memcpy(image.data() + cell(1), image.data() + cell(0), 4);
  EXPECT_THAT(refusal(image), HasSubstr("rows of table `points` are out of order"));
}

TEST_F(ForeignTelemetry, ASetStopTokenPreventsReading) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(refusal_of_packed(other.packed("b", 1), stop.get_token()), "a: stopped");
}

// ---- database::Foreign, which reads all foreign databases

constexpr std::array<std::string_view, 1> k_steps{"CREATE TABLE numbers (number INTEGER PRIMARY KEY)"};
constexpr database::Schema k_numbers{.application_id = 7, .steps = k_steps};

std::string numbers_image(int count) {
  SQLite::Database database(":memory:", SQLite::OPEN_READWRITE);
  database.exec(std::string(k_steps.front()));
  database.exec(
      fmt::format("PRAGMA application_id = 7; PRAGMA user_version = 1; {} INSERT INTO numbers SELECT i "
                  "FROM n LIMIT {}",
                  k_endless, count));
  sqlite3_int64 size = 0;
  const std::unique_ptr<unsigned char, void (*)(void*)> image(
      sqlite3_serialize(database.getHandle(), "main", &size, 0), &sqlite3_free);
  return {reinterpret_cast<const char*>(image.get()), static_cast<std::size_t>(size)};
}

std::int64_t number_of(database::Foreign& foreign, const std::string& sql) {
  return foreign.read([&](SQLite::Database& database) { return database.execAndGet(sql).getInt64(); });
}

TEST(ForeignDatabase, TheDatabaseIsReadOnly) {
  database::Foreign foreign(numbers_image(300), k_numbers, {});
  EXPECT_EQ(number_of(foreign, "SELECT sum(number) FROM numbers"), 45150);
  for (const char* sql : {"INSERT INTO numbers VALUES (1000)", "ATTACH ':memory:' AS more",
                          "PRAGMA query_only = OFF; "
                          "DELETE FROM numbers",
                          "CREATE TABLE main.more (a)"}) {
    const auto error =
        error_of([&] { foreign.read([&](SQLite::Database& database) { database.exec(sql); }); });
    ASSERT_TRUE(error) << sql;
    EXPECT_EQ(error->kind(), ErrorKind::corrupt) << sql;
  }
  EXPECT_EQ(number_of(foreign, "SELECT count(*) FROM numbers"), 300);
}

TEST(ForeignDatabase, AStatementWithTooManyStepsIsEnded) {
  database::Foreign foreign(numbers_image(300), k_numbers, {});
  const auto error = error_of(
      [&] { (void)number_of(foreign, "SELECT count(*) FROM numbers a, numbers b, numbers c, numbers d"); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("takes more steps to read than a database of its size needs"));
}

TEST(ForeignDatabase, AStopEndsAStatement) {
  std::stop_source stop;
  database::Foreign foreign(numbers_image(300), k_numbers, stop.get_token());
  int calls = 0;
  const auto halt = [&] {
    if (++calls == 10) stop.request_stop();
  };
  const auto error = error_of([&] {
    foreign.read([&](SQLite::Database& database) {
      std::function<void()> call = halt;
      sqlite3_create_function(
          database.getHandle(), "halt", 0, SQLITE_UTF8, &call,
          [](sqlite3_context* context, int, sqlite3_value**) {
            (*static_cast<std::function<void()>*>(sqlite3_user_data(context)))();
          },
          nullptr, nullptr);
      database.execAndGet("SELECT count(halt()) FROM numbers a, numbers b");
    });
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::cancelled);
  EXPECT_LT(calls, 300);
}

}  // namespace
}  // namespace combu::test
