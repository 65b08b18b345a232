// Reads damaged or hostile databases as packed telemetry of another combu. The input selects SQL statements
// that change a valid database (objects, values, frames, SQLite's own tables), and then bytes to change.
// Telemetry::adopt() must store the database so that all of it can be read, or throw Error(corrupt). Memory
// and time must be bounded.

#include <fmt/format.h>
#include <fuzzer/FuzzedDataProvider.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "combu/database.hpp"
#include "combu/telemetry.hpp"
#include "telemetry/pack.hpp"

namespace {

using combu::Error;
using combu::LogPiece;
using combu::Telemetry;

// A temporary folder of this process.
class Scratch {
 public:
  Scratch() : path_("/tmp/combu-fuzz.XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string good_image(Telemetry& telemetry) {
  const combu::Instant at = *combu::parse_timestamp("2026-01-31T12:00:00Z");
  const std::array pieces{LogPiece{.stream = combu::LogStream::out, .text = "first\n", .at = at},
                          LogPiece{.stream = combu::LogStream::err, .text = "second\n", .at = at}};
  std::array metrics{combu::LogBatch::Metric{.name = "loss", .points = {}},
                     combu::LogBatch::Metric{.name = "acc", .points = {}}};
  for (auto& metric : metrics)
    for (int i = 0; i < 200; ++i) metric.points.push_back({.step = std::nan(""), .at = at, .value = i / 7.0});
  (void)telemetry.append("good", 1, std::nullopt, {.pieces = pieces, .metrics = metrics, .complete = true},
                         combu::Bytes{1 << 20});
  return combu::telemetry::decompressed(telemetry.packed("good", 1), combu::k_packed_max);
}

// ---- The grammar

constexpr std::array k_objects{"attempts",         "packs", "series", "points",      "metrics",
                               "packs_of_attempt", "more",  "number", "sqlite_stat1"};
constexpr std::array k_tables{"attempts", "packs", "series", "points", "more", "sqlite_schema"};
constexpr std::array k_columns{
    "number", "trial",    "attempt",  "complete", "size",   "dropped",  "until",       "metric",  "data",
    "points", "last",     "least",    "place",    "step",   "at",       "value",       "gaps",    "sql",
    "name",   "tbl_name", "rootpage", "type",     "series", "at_until", "passed_over", "greatest"};
constexpr std::array k_types{"TABLE", "VIEW", "INDEX", "TRIGGER"};
constexpr std::array k_expressions{
    "1",
    "number",
    "abs(attempt)",
    "randomblob(100000)",
    "length(printf('%.*c', 100000, 'x'))",
    "(SELECT count(*) FROM attempts, packs, series, points)",
    "load_extension('x')",
    "hex(zeroblob(1000))",
};
constexpr std::array k_numbers{
    "0",     "1",     "-1",     "2",  "77", "2147483647", "9223372036854775807", "-9223372036854775808",
    "1e308", "9e999", "-9e999", "1.5"};
constexpr std::array k_pragmas{"application_id = 7", "user_version = 1",     "user_version = 2",
                               "user_version = 4",   "writable_schema = ON", "auto_vacuum = FULL",
                               "page_size = 512",    "page_size = 65536",    "journal_mode = WAL",
                               "secure_delete = ON", "encoding = 'UTF-16'"};

class Grammar {
 public:
  explicit Grammar(FuzzedDataProvider& choices) : choices_(choices) {}

  std::string statement() {
    switch (choices_.ConsumeIntegralInRange(0, 13)) {
      case 0:
        return fmt::format("DROP {} {}", pick(k_types), pick(k_objects));
      case 1:
        return fmt::format("CREATE VIEW {} AS {}", pick(k_objects), select());
      case 2:
        return fmt::format("CREATE TABLE {} ({}) {}", pick(k_objects), columns(),
                           pick(std::array{"", "WITHOUT ROWID", "STRICT"}));
      case 3:
        return fmt::format("CREATE TRIGGER {} AFTER INSERT ON {} BEGIN DELETE FROM {}; END", pick(k_objects),
                           pick(k_tables), pick(k_tables));
      case 4:
        return fmt::format("CREATE {} INDEX {} ON {} ({}) {}", pick(std::array{"", "UNIQUE"}),
                           pick(k_objects), pick(k_tables), pick(k_expressions),
                           choices_.ConsumeBool() ? fmt::format("WHERE {}", pick(k_expressions)) : "");
      case 5:
        return fmt::format("ALTER TABLE {} ADD COLUMN {} {}", pick(k_tables), pick(k_columns), constraint());
      case 6:
        return fmt::format("ALTER TABLE {} DROP COLUMN {}", pick(k_tables), pick(k_columns));
      case 7:
        return fmt::format("ALTER TABLE {} RENAME TO {}", pick(k_tables), pick(k_objects));
      case 8:
        return fmt::format("PRAGMA {}", pick(k_pragmas));
      case 9:
        return "VACUUM";
      case 10:
        return fmt::format("PRAGMA writable_schema = ON; UPDATE sqlite_schema SET {} = {} WHERE name = '{}'",
                           pick(std::array{"sql", "name", "tbl_name", "rootpage", "type"}), value(),
                           pick(k_objects));
      case 11:
        return fmt::format("INSERT INTO {} SELECT {}, {}, {}, {}{}", pick(k_tables), value(), value(),
                           value(), value(), choices_.ConsumeBool() ? fmt::format(", {}", value()) : "");
      case 12:
        return fmt::format("DELETE FROM {} WHERE {} {} {}", pick(k_tables), pick(k_columns),
                           pick(std::array{"=", "<", "IS NOT"}), value());
      default:
        return fmt::format("UPDATE {} SET {} = {}", pick(k_tables), pick(k_columns), value());
    }
  }

 private:
  template <class List>
  const char* pick(const List& list) {
    return list[choices_.ConsumeIntegralInRange<std::size_t>(0, list.size() - 1)];
  }

  std::string select() {
    switch (choices_.ConsumeIntegralInRange(0, 2)) {
      case 0:
        return fmt::format("SELECT *, {} AS {} FROM {}", pick(k_expressions), pick(k_columns),
                           pick(k_objects));
      case 1:
        return fmt::format(
            "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n) SELECT i AS {}, {} AS {} FROM "
            "n",
            pick(k_columns), value(), pick(k_columns));
      default:
        return fmt::format("SELECT {} AS {}, {} AS {}", value(), pick(k_columns), value(), pick(k_columns));
    }
  }

  std::string columns() {
    std::string list = fmt::format("{} {}", pick(k_columns), constraint());
    for (int more = choices_.ConsumeIntegralInRange(0, 8); more > 0; --more)
      list += fmt::format(", {} {}", pick(k_columns), constraint());
    return list;
  }

  std::string constraint() {
    switch (choices_.ConsumeIntegralInRange(0, 6)) {
      case 0:
        return "INTEGER PRIMARY KEY";
      case 1:
        return "INTEGER NOT NULL DEFAULT 0";
      case 2:
        return fmt::format("GENERATED ALWAYS AS ({})", pick(k_expressions));
      case 3:
        return fmt::format("DEFAULT ({})", pick(k_expressions));
      case 4:
        return fmt::format("CHECK ({})", pick(k_expressions));
      case 5:
        return "TEXT COLLATE NOCASE UNIQUE";
      default:
        return "BLOB";
    }
  }

  std::string value() {
    switch (choices_.ConsumeIntegralInRange(0, 6)) {
      case 0:
        return "NULL";
      case 1:
        return fmt::format("'{}'", pick(k_objects));
      case 2:
        return literal(choices_.ConsumeRandomLengthString(64));
      case 3:
        return literal(combu::telemetry::compressed(choices_.ConsumeRandomLengthString(256)));
      case 4:
        return fmt::format("zeroblob({})", choices_.ConsumeIntegralInRange(0, 100000));
      case 5:
        return fmt::format("{}", choices_.ConsumeIntegral<std::int64_t>());
      default:
        return pick(k_numbers);
    }
  }

  static std::string literal(std::string_view bytes) {
    std::string text = "x'";
    for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    return text + '\'';
  }

  FuzzedDataProvider& choices_;
};

// Returns the database after the statements that the input selects. Ignores statements that fail. The
// progress handler interrupts a statement that runs too long.
std::string after_statements(const std::string& image, FuzzedDataProvider& choices) {
  SQLite::Database database(":memory:", SQLite::OPEN_READWRITE);
  sqlite3* const handle = database.getHandle();
  sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, 1 << 20);
  const auto size = static_cast<sqlite3_int64>(image.size());
  auto* const copy = static_cast<unsigned char*>(sqlite3_malloc64(image.size()));
  std::memcpy(copy, image.data(), image.size());
  sqlite3_deserialize(handle, "main", copy, size, size,
                      SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE);
  sqlite3_progress_handler(
      handle, 20000, [](void*) { return 1; }, nullptr);
  Grammar grammar(choices);
  for (int count = choices.ConsumeIntegralInRange(0, 12); count > 0; --count)
    (void)database.tryExec(grammar.statement());
  sqlite3_int64 changed_size = 0;
  const std::unique_ptr<unsigned char, void (*)(void*)> changed(
      sqlite3_serialize(handle, "main", &changed_size, 0), &sqlite3_free);
  return changed ? std::string(reinterpret_cast<const char*>(changed.get()),
                               static_cast<std::size_t>(changed_size))
                 : image;
}

void change_bytes(std::string& image, FuzzedDataProvider& choices) {
  for (int count = choices.ConsumeIntegralInRange(0, 24); count > 0 && !image.empty(); --count) {
    // Half of the changes are in the first bytes of a page, where SQLite keeps its own structures.
    std::size_t at = choices.ConsumeIntegralInRange<std::size_t>(0, image.size() - 1);
    if (choices.ConsumeBool()) at = std::min(at / 4096 * 4096 + at % 128, image.size() - 1);
    image[at] = static_cast<char>(choices.ConsumeIntegral<std::uint8_t>());
  }
  if (choices.ConsumeBool()) image.resize(choices.ConsumeIntegralInRange<std::size_t>(0, image.size()));
}

void read_all(Telemetry& telemetry) {
  telemetry.read_log("a", combu::k_adopted, std::nullopt, [](const LogPiece&) { return true; });
  std::vector<std::string> names;
  telemetry.metrics([&](const combu::MetricSummary& one) { names.push_back(one.metric); });
  for (const std::string& name : names) telemetry.points("a", name, [](const combu::MetricPoint&) {});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Scratch scratch;
  static Telemetry good(scratch.path(), combu::RunId("good"));
  static Telemetry telemetry(scratch.path(), combu::RunId("run"));
  static const std::string image = good_image(good);
  FuzzedDataProvider choices(data, size);
  std::string changed = after_statements(image, choices);
  change_bytes(changed, choices);
  try {
    telemetry.adopt(combu::telemetry::compressed(changed), "a");
  } catch (const Error& error) {
    if (error.kind() != combu::ErrorKind::corrupt) throw;
    return 0;
  }
  read_all(telemetry);
  return 0;
}
