#include "telemetry/foreign.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "telemetry/metrics.hpp"
#include "telemetry/pack.hpp"

namespace combu::telemetry {
namespace {

using database::Rows;
using database::Sql;

// Maximum distance of a timestamp from 1970, in nanoseconds; about 250 years. Within this range, conversions
// between nanoseconds and microseconds cannot overflow.
constexpr std::int64_t k_foreign_nanos_max = 8'000'000'000'000'000'000;
constexpr std::int64_t k_foreign_micros_max = k_foreign_nanos_max / 1000;

bool is_within(std::int64_t value, std::int64_t most) {
  return value >= -most && value <= most;
}

// The database stores NaN as NULL.
double double_in(const Rows& row, int column) {
  return row.is_null(column) ? std::nan("") : row.real(column);
}
bool is_number_or_null(const Rows& row, int column) {
  const int type = row.type(column);
  return type == SQLITE_FLOAT || type == SQLITE_INTEGER || type == SQLITE_NULL;
}

constexpr const char* k_select_packs =
    "SELECT number, attempt, size, data FROM packs NOT INDEXED ORDER BY number";
constexpr const char* k_select_points =
    "SELECT series, place, step, at, value FROM points ORDER BY series, place";

// Returns the SQL expression for a column: the column's name, or "0" in schema versions before `added`, which
// lack the column.
std::string since(std::size_t version, std::size_t added, const char* column) {
  return version >= added ? column : "0";
}

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorKind::corrupt, "", why);
}

}  // namespace

ForeignAttempt::ForeignAttempt(std::string image, const database::Schema& schema, std::stop_token stop)
    : stop_(std::move(stop)), image_(std::move(image), schema, stop_) {
  image_.read([&](SQLite::Database& database) {
    read_attempt(database);
    check_packs(database);
    read_series(database);
    check_points(database);
  });
}

void ForeignAttempt::read_attempt(SQLite::Database& database) {
  Rows rows(database,
            fmt::format("SELECT number, trial, attempt, complete, size, dropped, until, at_until, {}, {} "
                        "FROM attempts NOT INDEXED ORDER BY number",
                        since(image_.version(), 2, "passed_over"), since(image_.version(), 3, "gaps")));
  if (!rows.step()) refuse("the database holds no attempt");
  for (const int column : {0, 2, 3, 4, 5, 6, 7, 8, 9})
    if (rows.type(column) != SQLITE_INTEGER) refuse("a value of table `attempts` is not an integer");
  if (rows.type(1) != SQLITE_TEXT || rows.text(1) != k_packed_name || rows.number(2) != k_adopted)
    refuse("the database holds an attempt with a wrong name or number");
  number_ = rows.number(0);
  for (const int column : {4, 5, 7, 8, 9})
    if (rows.number(column) < 0) refuse("a size or count of table `attempts` is negative");
  if (rows.number(3) != 1) refuse("the log is not complete");
  if (rows.number(5) > rows.number(4)) refuse("the log has more dropped bytes than written bytes");
  if (!is_within(rows.number(6), k_foreign_nanos_max)) refuse("a time of table `attempts` is out of range");
  log_ = {.complete = true,
          .size = Bytes{rows.number(4)},
          .dropped = Bytes{rows.number(5)},
          .until = Instant(
              std::chrono::duration_cast<Instant::duration>(std::chrono::nanoseconds(rows.number(6)))),
          .at_until = static_cast<std::size_t>(rows.number(7)),
          .passed_over = static_cast<std::size_t>(rows.number(8)),
          .gaps = static_cast<std::size_t>(rows.number(9))};
  if (rows.step()) refuse("the database holds more than one attempt");
}

void ForeignAttempt::check_packs(SQLite::Database& database) {
  Rows rows(database, k_select_packs);
  std::int64_t last = 0;
  std::int64_t plain = 0;
  while (rows.step()) {
    if (stop_.stop_requested()) throw Error(ErrorKind::cancelled, "", "stopped");
    // Rows are out of order if a hostile database file links a page twice.
    if (rows.number(0) <= last) refuse("rows of table `packs` are out of order");
    last = rows.number(0);
    if (rows.type(1) != SQLITE_INTEGER || rows.number(1) != number_ || rows.type(2) != SQLITE_INTEGER ||
        rows.type(3) != SQLITE_BLOB)
      refuse("a row of table `packs` has a value of a wrong type, or belongs to no attempt");
    const Content content = checked(rows.blob(3), k_foreign_nanos_max);
    if (content.text.count != rows.number(2)) refuse("a size of table `packs` does not match its data");
    plain += content.plain.count;
    if (plain > k_foreign_log_max)
      refuse(fmt::format("the log is larger than {}", to_string(Bytes{k_foreign_log_max})));
  }
}

void ForeignAttempt::read_series(SQLite::Database& database) {
  Rows rows(database,
            "SELECT number, attempt, metric, points, last, least, greatest FROM series NOT INDEXED "
            "ORDER BY number");
  std::set<std::string, std::less<>> names;
  while (rows.step()) {
    if (!series_.empty() && rows.number(0) <= series_.back().number)
      refuse("rows of table `series` are out of order");
    if (series_.size() == k_metrics_max)
      refuse(fmt::format("the attempt has more than {} metrics", k_metrics_max));
    if (rows.type(1) != SQLITE_INTEGER || rows.number(1) != number_ || rows.type(2) != SQLITE_TEXT ||
        rows.type(3) != SQLITE_INTEGER || !is_number_or_null(rows, 4) || !is_number_or_null(rows, 5) ||
        !is_number_or_null(rows, 6))
      refuse("a row of table `series` has a value of a wrong type, or belongs to no attempt");
    if (rows.text(2).size() > k_line_max) refuse("a metric's name is longer than a line of a log can be");
    if (rows.number(3) < 0) refuse("a metric's number of points is negative");
    if (!names.emplace(rows.text(2)).second) refuse("two metrics have the same name");
    series_.push_back({.number = rows.number(0),
                       .metric = std::string(rows.text(2)),
                       .points = rows.number(3),
                       .last = double_in(rows, 4),
                       .least = double_in(rows, 5),
                       .greatest = double_in(rows, 6)});
  }
}

void ForeignAttempt::check_points(SQLite::Database& database) {
  Rows rows(database, k_select_points);
  auto series = series_.begin();
  std::int64_t last = -1;  // `place` of the previous point in the series
  while (rows.step()) {
    for (const int column : {0, 1, 3})
      if (rows.type(column) != SQLITE_INTEGER) refuse("a value of table `points` is not an integer");
    while (series != series_.end() && series->number != rows.number(0)) {
      ++series;
      last = -1;
    }
    if (series == series_.end()) refuse("rows of table `points` are out of order, or belong to no series");
    if (rows.number(1) <= last || rows.number(1) >= series->points)
      refuse("rows of table `points` are out of order, or exceed the number in table `series`");
    last = rows.number(1);
    if (!is_number_or_null(rows, 2) || rows.is_null(2) || !is_number_or_null(rows, 4))
      refuse("a value of table `points` is not a number");
    if (!is_within(rows.number(3), k_foreign_micros_max)) refuse("a time of table `points` is out of range");
  }
}

void ForeignAttempt::copy_to(SQLite::Database& to, std::int64_t attempt) {
  const auto select = [&](const char* sql) {
    return image_.read([&](SQLite::Database& database) { return Rows(database, sql); });
  };
  const auto next = [&](Rows& rows) {
    return image_.read([&](SQLite::Database& /*database*/) { return rows.step(); });
  };
  SQLite::Statement add_pack(to, "INSERT INTO packs VALUES (NULL, ?, ?, ?)");
  Rows packs = select(k_select_packs);
  while (next(packs)) {
    const std::string_view data = packs.blob(3);
    add_pack.reset();
    add_pack.bind(1, attempt);
    add_pack.bind(2, packs.number(2));
    add_pack.bindNoCopy(3, data.data(), static_cast<int>(data.size()));
    add_pack.exec();
  }
  Sql add_series(to, "INSERT INTO series VALUES (NULL, ?, ?, ?, ?, ?, ?)");
  std::map<std::int64_t, std::int64_t>
      numbers;  // maps the number of a series in the image to its number in `to`
  for (const Series& one : series_) {
    add_series(attempt, one.metric, one.points, one.last, one.least, one.greatest);
    numbers[one.number] = to.getLastInsertRowid();
  }
  Sql add_point(to, "INSERT INTO points VALUES (?, ?, ?, ?, ?)");
  Rows points = select(k_select_points);
  while (next(points))
    add_point(numbers.at(points.number(0)), points.number(1), points.real(2), points.number(3),
              double_in(points, 4));
}

}  // namespace combu::telemetry
