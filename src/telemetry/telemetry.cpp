#include "combu/telemetry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

#include "combu/database.hpp"
#include "combu/system.hpp"
#include "telemetry/foreign.hpp"
#include "telemetry/pack.hpp"

namespace combu {
namespace {

using database::Rows;
using database::Sql;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr int k_application_id = 0x636d6274;  // "cmbt"

// The column `until` is in nanoseconds since 1970, the resolution of the engines' log times. All other times
// in the database are in microseconds since 1970. A pack is a part of a log (see pack.hpp). NaN is stored as
// NULL. ForeignAttempt must be able to read databases of all schema versions.
constexpr std::array<std::string_view, 3> k_steps{R"sql(
  CREATE TABLE attempts (
    number INTEGER PRIMARY KEY,
    trial TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    complete INTEGER NOT NULL,
    size INTEGER NOT NULL,
    dropped INTEGER NOT NULL,
    until INTEGER NOT NULL,
    at_until INTEGER NOT NULL,
    UNIQUE (trial, attempt)
  );
  CREATE TABLE packs (
    number INTEGER PRIMARY KEY,
    attempt INTEGER NOT NULL REFERENCES attempts,
    size INTEGER NOT NULL,
    data BLOB NOT NULL
  );
  CREATE INDEX packs_of_attempt ON packs (attempt, number);
  CREATE TABLE series (
    number INTEGER PRIMARY KEY,
    attempt INTEGER NOT NULL REFERENCES attempts,
    metric TEXT NOT NULL,
    points INTEGER NOT NULL,
    last REAL,
    least REAL,
    greatest REAL,
    UNIQUE (attempt, metric)
  );
  CREATE TABLE points (
    series INTEGER NOT NULL REFERENCES series,
    place INTEGER NOT NULL,
    step REAL,
    at INTEGER NOT NULL,
    value REAL,
    PRIMARY KEY (series, place)
  ) WITHOUT ROWID;
  CREATE VIEW metrics AS
    SELECT trial, attempts.attempt, metric, points, last, least, greatest
    FROM series JOIN attempts ON attempts.number = series.attempt;
)sql",
                                                  R"sql(
  ALTER TABLE attempts ADD COLUMN passed_over INTEGER NOT NULL DEFAULT 0;
)sql",
                                                  R"sql(
  ALTER TABLE attempts ADD COLUMN gaps INTEGER NOT NULL DEFAULT 0;
)sql"};

constexpr database::Schema k_schema{.application_id = k_application_id, .steps = k_steps};

std::string folder_in(const std::string& folder) {
  return folder + "/telemetry";
}
std::string path_in(const std::string& folder, const RunId& run) {
  return fmt::format("{}/{}.sqlite", folder_in(folder), run.text());
}
std::string made(const std::string& folder, const RunId& run) {
  make_state_folder(folder);
  make_private_folder(folder_in(folder));
  return path_in(folder, run);
}

std::int64_t nanos(Instant at) {
  return std::chrono::duration_cast<nanoseconds>(at.time_since_epoch()).count();
}
std::int64_t micros(Instant at) {
  return std::chrono::duration_cast<microseconds>(at.time_since_epoch()).count();
}
template <class Unit>
Instant instant_of(std::int64_t count) {
  return Instant(std::chrono::duration_cast<Instant::duration>(Unit(count)));
}

// The database stores NaN as NULL.
double value_in(const Rows& row, int column) {
  return row.is_null(column) ? std::nan("") : row.real(column);
}

// Names of the databases in SQL statements: `main` is the database that the connection opened, `other` a
// database that Attached adds.
constexpr std::string_view k_ours = "main";
constexpr std::string_view k_other = "other";

// Attaches a database to another connection for the lifetime of this object.
class Attached {
 public:
  Attached(SQLite::Database& to, const std::string& path) : to_(to) {
    SQLite::Statement attach(to, fmt::format("ATTACH ? AS {}", k_other));
    attach.bind(1, path);
    attach.exec();
  }
  ~Attached() { (void)to_.tryExec(fmt::format("DETACH {}", k_other)); }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;

 private:
  SQLite::Database& to_;
};

void forget(SQLite::Database& database, std::int64_t attempt) {
  Sql(database, "DELETE FROM points WHERE series IN (SELECT number FROM series WHERE attempt = ?)")(attempt);
  Sql(database, "DELETE FROM series WHERE attempt = ?")(attempt);
  Sql(database, "DELETE FROM packs WHERE attempt = ?")(attempt);
  Sql(database, "DELETE FROM attempts WHERE number = ?")(attempt);
}

// Copies attempts from the attached database named `source`. Copies all attempts with a few statements,
// because separate statements for each attempt would double the time that combu needs for a skipped trial.
std::set<std::string> adopt_from(SQLite::Database& database, std::string_view source,
                                 std::span<const Adoption> wanted) {
  database.exec(
      "PRAGMA temp_store = MEMORY;"
      "CREATE TEMP TABLE IF NOT EXISTS wanted (trial TEXT PRIMARY KEY, source TEXT NOT NULL,"
      "                                        attempt INTEGER NOT NULL);"
      "CREATE TEMP TABLE IF NOT EXISTS adopted (new INTEGER PRIMARY KEY, old INTEGER NOT NULL,"
      "                                         trial TEXT NOT NULL);"
      "CREATE TEMP TABLE IF NOT EXISTS told (new INTEGER PRIMARY KEY, old INTEGER NOT NULL,"
      "                                      attempt INTEGER NOT NULL);");
  // The first DELETE deletes nothing, but locks the database `main` for writing. BEGIN IMMEDIATE would lock
  // all attached databases.
  SQLite::Transaction transaction(database);
  database.exec("DELETE FROM main.attempts WHERE number IS NULL");
  database.exec("DELETE FROM wanted; DELETE FROM adopted; DELETE FROM told");
  Sql want(database, "INSERT OR REPLACE INTO wanted VALUES (?, ?, ?)");
  for (const Adoption& one : wanted) want(one.trial, one.from, one.attempt);
  std::vector<std::int64_t> earlier;
  Rows before(database, fmt::format("SELECT number FROM wanted CROSS JOIN main.attempts AS ours "
                                    "ON ours.trial = wanted.trial AND ours.attempt = {}",
                                    k_adopted));
  while (before.step()) earlier.push_back(before.number(0));
  const auto all = [&](std::string_view statement) {
    database.exec(
        fmt::format(fmt::runtime(statement), fmt::arg("from", source), fmt::arg("adopted", k_adopted)));
  };
  all("INSERT INTO adopted SELECT (SELECT coalesce(max(number), 0) FROM main.attempts) + "
      "row_number() OVER (), number, wanted.trial FROM wanted CROSS JOIN {from}.attempts AS theirs "
      "ON theirs.trial = wanted.source AND theirs.attempt = wanted.attempt WHERE complete");
  all("INSERT INTO told SELECT (SELECT coalesce(max(number), 0) FROM main.series) + "
      "row_number() OVER (), series.number, new FROM adopted CROSS JOIN {from}.series ON attempt = old");
  all("INSERT INTO main.packs SELECT NULL, new, size, data FROM adopted CROSS JOIN {from}.packs AS theirs "
      "ON theirs.attempt = old ORDER BY new, theirs.number");
  all("INSERT INTO main.points SELECT new, place, step, at, value FROM told CROSS JOIN {from}.points "
      "ON series = old");
  all("INSERT INTO main.series SELECT new, told.attempt, metric, points, last, least, greatest FROM told "
      "CROSS JOIN {from}.series AS theirs ON theirs.number = old");
  // A trial may already have an adopted attempt, from which another trial copies. Hence the new attempts have
  // temporary numbers until the old adopted attempts are deleted.
  all("INSERT INTO main.attempts (number, trial, attempt, complete, size, dropped, until, at_until, "
      "passed_over, gaps) SELECT new, adopted.trial, -new, complete, size, dropped, until, at_until, "
      "passed_over, gaps FROM adopted CROSS JOIN {from}.attempts AS theirs ON theirs.number = old");
  for (const std::int64_t attempt : earlier) forget(database, attempt);
  all("UPDATE main.attempts SET attempt = {adopted} WHERE number IN (SELECT new FROM adopted)");
  std::set<std::string> adopted;
  Rows rows(database, "SELECT trial FROM adopted");
  while (rows.step()) adopted.emplace(rows.text(0));
  transaction.commit();
  return adopted;
}

// ---- Packing: a database of one attempt of one trial, as the bytes of an SQLite file

std::string image_of(SQLite::Database& database) {
  sqlite3_int64 size = 0;
  const std::unique_ptr<unsigned char, void (*)(void*)> image(
      sqlite3_serialize(database.getHandle(), "main", &size, 0), &sqlite3_free);
  if (!image) throw SQLite::Exception("out of memory", SQLITE_NOMEM);
  return {reinterpret_cast<const char*>(image.get()), static_cast<std::size_t>(size)};
}

// Returns false if the log, or a line of the log, is too large to be shared with other users.
bool can_be_shared(SQLite::Database& database) {
  SQLite::Statement query(database, "SELECT coalesce(max(size), 0), coalesce(sum(size), 0) FROM packs");
  query.executeStep();
  return query.getColumn(0).getInt64() <= telemetry::k_foreign_pack_max &&
         query.getColumn(1).getInt64() <= telemetry::k_foreign_log_max / 2;
}

}  // namespace

void PointSummary::add(const PointSummary& later) {
  if (later.points == 0) return;
  points += later.points;
  last = later.last;
  least = std::fmin(least, later.least);  // fmin() and fmax() ignore NaN
  greatest = std::fmax(greatest, later.greatest);
}

struct Telemetry::Impl {
  struct StoredAttempt {
    std::int64_t number = 0;
    StoredLog log;
  };

  Impl(const std::string& folder, const RunId& run, Use use)
      : path(use == Use::reading ? path_in(folder, run) : made(folder, run)), database(open(path, use)) {}

  static SQLite::Database open(const std::string& path, Use use) {
    if (use == Use::all) return database::open(path, k_schema);
    std::error_code none;
    if (!std::filesystem::exists(path, none)) throw Error(ErrorKind::not_found, path, "is not there");
    return database::open_to_read(path, k_schema);
  }

  std::optional<StoredAttempt> kept(const std::string& trial, int attempt) {
    SQLite::Statement& query = find_attempt;
    query.reset();
    query.bind(1, trial);
    query.bind(2, attempt);
    std::optional<StoredAttempt> found;
    if (query.executeStep())
      found = {.number = query.getColumn(0).getInt64(),
               .log = {.complete = query.getColumn(1).getInt() != 0,
                       .size = Bytes{query.getColumn(2).getInt64()},
                       .dropped = Bytes{query.getColumn(3).getInt64()},
                       .until = instant_of<nanoseconds>(query.getColumn(4).getInt64()),
                       .at_until = static_cast<std::size_t>(query.getColumn(5).getInt64()),
                       .passed_over = static_cast<std::size_t>(query.getColumn(6).getInt64()),
                       .gaps = static_cast<std::size_t>(query.getColumn(7).getInt64())}};
    query.reset();  // while a statement is open, other processes cannot write
    return found;
  }

  std::int64_t add_attempt(const std::string& trial, int attempt) {
    if (const auto adopted = kept(trial, k_adopted)) forget(database, adopted->number);
    insert_attempt(trial, attempt);
    return database.getLastInsertRowid();
  }

  void set_attempt(std::int64_t number, const StoredLog& log) {
    update_attempt(static_cast<int>(log.complete), log.size.count, log.dropped.count, nanos(log.until),
                   static_cast<std::int64_t>(log.at_until), static_cast<std::int64_t>(log.passed_over),
                   static_cast<std::int64_t>(log.gaps), number);
  }

  void add_packs(std::int64_t attempt, std::span<const telemetry::Pack> packs) {
    for (const telemetry::Pack& pack : packs) {
      insert_pack.reset();
      insert_pack.bind(1, attempt);
      insert_pack.bind(2, pack.size.count);
      insert_pack.bindNoCopy(3, pack.data.data(), static_cast<int>(pack.data.size()));
      insert_pack.exec();
    }
  }

  // Deletes the oldest packs until at most `size_max` bytes of the attempt's log remain. If deleting a whole
  // pack would remove much more than necessary, deletes only a part of the pack. Returns the size of the
  // removed texts.
  Bytes drop(std::int64_t attempt, Bytes kept, Bytes size_max) {
    Bytes dropped;
    if (kept <= size_max) return dropped;
    SQLite::Statement oldest(database,
                             "SELECT number, size, data FROM packs WHERE attempt = ? ORDER BY number");
    oldest.bind(1, attempt);
    Sql remove(database, "DELETE FROM packs WHERE number = ?");
    while (kept.count - dropped.count > size_max.count && oldest.executeStep()) {
      const std::int64_t number = oldest.getColumn(0).getInt64();
      const std::int64_t size = oldest.getColumn(1).getInt64();
      const std::int64_t excess = kept.count - dropped.count - size_max.count;
      if (size - excess > size_max.count / 4) {
        const SQLite::Column data = oldest.getColumn(2);
        const telemetry::Pack rest = telemetry::without_first(
            {static_cast<const char*>(data.getBlob()), static_cast<std::size_t>(data.size())},
            static_cast<std::size_t>(excess));
        SQLite::Statement cut(database, "UPDATE packs SET size = ?, data = ? WHERE number = ?");
        cut.bind(1, rest.size.count);
        cut.bindNoCopy(2, rest.data.data(), static_cast<int>(rest.data.size()));
        cut.bind(3, number);
        cut.exec();
        dropped.count += size - rest.size.count;
      } else {
        remove(number);
        dropped.count += size;
      }
    }
    return dropped;
  }

  void add_metric(std::int64_t attempt, const LogBatch::Metric& metric) {
    SQLite::Statement find(
        database,
        "SELECT number, points, last, least, greatest FROM series WHERE attempt = ? AND metric = ?");
    find.bind(1, attempt);
    find.bindNoCopy(2, metric.name);
    PointSummary summary;
    std::int64_t series = 0;
    if (find.executeStep()) {
      const auto value = [&](int column) {
        return find.getColumn(column).isNull() ? std::nan("") : find.getColumn(column).getDouble();
      };
      series = find.getColumn(0).getInt64();
      summary = {.points = static_cast<std::size_t>(find.getColumn(1).getInt64()),
                 .last = value(2),
                 .least = value(3),
                 .greatest = value(4)};
    } else {
      insert_series(attempt, metric.name);
      series = database.getLastInsertRowid();
    }
    for (const MetricPoint& point : metric.points) {
      add_point(series, static_cast<std::int64_t>(summary.points),
                std::isnan(point.step) ? static_cast<double>(summary.points) : point.step, micros(point.at),
                point.value);
      summary.add(point.value);
    }
    summary.add(metric.more);
    set_series(static_cast<std::int64_t>(summary.points), summary.last, summary.least, summary.greatest,
               series);
  }

  std::string path;
  std::mutex foreign_mutex;  // locked before `mutex`
  std::mutex mutex;
  std::string fault;
  // Maps the trial and attempt of a growing log to the moment up to which the log was read, and the moment of
  // that reading.
  std::map<std::pair<std::string, int>, std::pair<Instant, std::chrono::steady_clock::time_point>> readings;
  SQLite::Database database;
  SQLite::Statement find_attempt{database,
                                 "SELECT number, complete, size, dropped, until, at_until, passed_over, gaps "
                                 "FROM attempts WHERE trial = ? AND attempt = ?"};
  Sql insert_attempt{database, "INSERT INTO attempts VALUES (NULL, ?, ?, 0, 0, 0, 0, 0, 0, 0)"};
  SQLite::Statement insert_pack{database, "INSERT INTO packs VALUES (NULL, ?, ?, ?)"};
  Sql insert_series{database, "INSERT INTO series VALUES (NULL, ?, ?, 0, NULL, NULL, NULL)"};
  Sql add_point{database, "INSERT INTO points VALUES (?, ?, ?, ?, ?)"};
  Sql set_series{database,
                 "UPDATE series SET points = ?, last = ?, least = ?, greatest = ? WHERE number = ?"};
  Sql update_attempt{database,
                     "UPDATE attempts SET complete = ?, size = ?, dropped = ?, until = ?, at_until = ?, "
                     "passed_over = ?, gaps = ? WHERE number = ?"};
};

bool Telemetry::exists(const std::string& folder, const RunId& run) {
  std::error_code none;
  return std::filesystem::exists(path_in(folder, run), none);
}

void Telemetry::remove(const std::string& folder, const RunId& run) {
  for (const char* suffix : {"", "-wal", "-shm"}) {
    std::error_code failed;
    const std::string path = path_in(folder, run) + suffix;
    std::filesystem::remove(path, failed);
    if (failed) throw Error(ErrorKind::refused, path, fmt::format("cannot be removed: {}", failed.message()));
  }
}

Telemetry::Telemetry(const std::string& folder, const RunId& run, Use use)
    : impl_(database::guarded(path_in(folder, run),
                              [&] { return std::make_unique<Impl>(folder, run, use); })) {}

Telemetry::~Telemetry() = default;

std::optional<StoredLog> Telemetry::log(const std::string& trial, int attempt) {
  const std::scoped_lock lock(impl_->mutex);
  return database::guarded(impl_->path, [&]() -> std::optional<StoredLog> {
    const auto kept = impl_->kept(trial, attempt);
    return kept ? std::optional(kept->log) : std::nullopt;
  });
}

Instant Telemetry::read_up_to(const std::string& trial, int attempt, Instant until) {
  const auto now = std::chrono::steady_clock::now();
  const std::scoped_lock lock(impl_->mutex);
  if (until == Instant{}) return Instant{};
  const auto [known, is_first] =
      impl_->readings.try_emplace(std::pair(trial, attempt), std::pair(until, now));
  if (is_first) return Instant{};
  const auto [before, at] = known->second;
  if (now - at < k_log_disorder_max) return Instant{};
  known->second = {until, now};
  return before;
}

std::size_t Telemetry::complete() {
  const std::scoped_lock lock(impl_->mutex);
  return database::guarded(impl_->path, [&] {
    SQLite::Statement query(impl_->database, "SELECT count(*) FROM attempts WHERE complete AND attempt <> ?");
    query.bind(1, k_adopted);
    query.executeStep();
    return static_cast<std::size_t>(query.getColumn(0).getInt64());
  });
}

void Telemetry::read_log(const std::string& trial, int attempt, std::optional<std::size_t> tail,
                         const std::function<bool(const LogPiece&)>& sink) {
  const std::scoped_lock lock(impl_->mutex);
  database::guarded(impl_->path, [&] {
    const auto kept = impl_->kept(trial, attempt);
    if (!kept) return;
    std::int64_t first = 0;
    std::size_t skipped = 0;  // number of lines to skip in the first pack
    if (tail) {
      SQLite::Statement back(impl_->database,
                             "SELECT number, data FROM packs WHERE attempt = ? ORDER BY number DESC");
      back.bind(1, kept->number);
      std::size_t lines = 0;
      while (lines < *tail && back.executeStep()) {
        first = back.getColumn(0).getInt64();
        telemetry::unpack(back.getColumn(1).getString(), [&](const LogPiece& piece) {
          if (piece.text.ends_with('\n')) ++lines;
          return true;
        });
      }
      if (*tail == 0) return;
      skipped = lines - std::min(lines, *tail);
    }
    SQLite::Statement query(impl_->database,
                            "SELECT data FROM packs WHERE attempt = ? AND number >= ? ORDER BY number");
    query.bind(1, kept->number);
    query.bind(2, first);
    bool more = true;
    while (more && query.executeStep()) {
      more = telemetry::unpack(query.getColumn(0).getString(), [&](const LogPiece& piece) {
        if (skipped == 0) return sink(piece);
        if (piece.text.ends_with('\n')) --skipped;
        return true;
      });
    }
  });
}

std::optional<StoredLog> Telemetry::append(const std::string& trial, int attempt,
                                           const std::optional<StoredLog>& before, const LogBatch& batch,
                                           Bytes size_max) {
  const std::vector<telemetry::Pack> packs = telemetry::pack(batch.pieces);
  StoredLog log = before.value_or(StoredLog{});
  for (const LogPiece& piece : batch.pieces) {
    log.size.count += static_cast<std::int64_t>(piece.text.size());
    if (piece.at > log.until) log.at_until = 0;
    log.until = std::max(log.until, piece.at);
    if (piece.at == log.until) ++log.at_until;
  }
  log.passed_over += batch.passed_over;
  if (batch.is_after_gap) ++log.gaps;
  log.complete = batch.complete;
  const std::scoped_lock lock(impl_->mutex);
  const auto write = [&]() -> std::optional<StoredLog> {
    Impl& impl = *impl_;
    SQLite::Transaction transaction(impl.database, SQLite::TransactionBehavior::IMMEDIATE);
    const auto kept = impl.kept(trial, attempt);
    if ((kept ? std::optional(kept->log) : std::nullopt) != before) return std::nullopt;
    const std::int64_t number = kept ? kept->number : impl.add_attempt(trial, attempt);
    impl.add_packs(number, packs);
    log.dropped.count += impl.drop(number, Bytes{log.size.count - log.dropped.count}, size_max).count;
    for (const LogBatch::Metric& metric : batch.metrics) impl.add_metric(number, metric);
    impl.set_attempt(number, log);
    transaction.commit();
    return log;
  };
  try {
    const auto after = database::guarded(impl_->path, write);
    impl_->fault.clear();
    return after;
  } catch (const Error& error) {
    impl_->fault = error.what();
    throw;
  }
}

std::set<std::string> Telemetry::adopt(const Telemetry& other, std::span<const Adoption> wanted) {
  const std::scoped_lock lock(impl_->mutex);
  return database::guarded(impl_->path, [&] {
    if (other.impl_->path == impl_->path) return adopt_from(impl_->database, k_ours, wanted);
    const Attached attached(impl_->database, other.impl_->path);
    return adopt_from(impl_->database, k_other, wanted);
  });
}

std::string Telemetry::packed(const std::string& trial, int attempt) {
  return database::guarded(impl_->path, [&]() -> std::string {
    SQLite::Database alone = database::in_memory(k_schema);
    {
      const Attached attached(alone, impl_->path);
      const Adoption itself{.trial = telemetry::k_packed_name, .from = trial, .attempt = attempt};
      if (adopt_from(alone, k_other, {&itself, 1}).empty()) return "";
    }
    if (!can_be_shared(alone)) return "";
    const std::string image = image_of(alone);
    return image.size() > k_packed_max ? "" : telemetry::compressed(image);
  });
}

void Telemetry::adopt(std::string_view packed, const std::string& trial, const std::stop_token& stop) {
  // Only one thread at a time unpacks telemetry, because several large databases together would take much
  // memory.
  const std::scoped_lock only_one(impl_->foreign_mutex);
  try {
    telemetry::ForeignAttempt theirs(telemetry::decompressed(packed, k_packed_max), k_schema, stop);
    const std::scoped_lock lock(impl_->mutex);
    database::guarded(impl_->path, [&] {
      SQLite::Transaction transaction(impl_->database, SQLite::TransactionBehavior::IMMEDIATE);
      const std::int64_t attempt = impl_->add_attempt(trial, k_adopted);
      theirs.copy_to(impl_->database, attempt);
      impl_->set_attempt(attempt, theirs.log());
      transaction.commit();
    });
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) throw Error(ErrorKind::cancelled, trial, error.message());
    if (error.kind() != ErrorKind::corrupt) throw;
    throw Error(ErrorKind::corrupt, trial,
                fmt::format("the telemetry of an equal trial is invalid: {}", error.message()));
  }
}

std::string Telemetry::fault() {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->fault;
}

std::map<std::string, std::size_t> Telemetry::metric_points(const std::string& trial, int attempt) {
  const std::scoped_lock lock(impl_->mutex);
  return database::guarded(impl_->path, [&] {
    SQLite::Statement query(
        impl_->database,
        "SELECT metric, series.points FROM series JOIN attempts ON attempts.number = series.attempt "
        "WHERE trial = ? AND attempts.attempt = ?");
    query.bind(1, trial);
    query.bind(2, attempt);
    std::map<std::string, std::size_t> points;
    while (query.executeStep())
      points.emplace(query.getColumn(0).getString(), static_cast<std::size_t>(query.getColumn(1).getInt64()));
    return points;
  });
}

std::vector<std::string> Telemetry::silent() {
  const std::scoped_lock lock(impl_->mutex);
  return database::guarded(impl_->path, [&] {
    SQLite::Statement query(
        impl_->database,
        "SELECT trial FROM attempts WHERE complete AND attempt = (SELECT max(attempt) FROM attempts "
        "AS newest WHERE newest.trial = attempts.trial) "
        "AND NOT EXISTS (SELECT 1 FROM series WHERE series.attempt = attempts.number) ORDER BY number");
    std::vector<std::string> trials;
    while (query.executeStep()) trials.push_back(query.getColumn(0).getString());
    return trials;
  });
}

void Telemetry::metrics(const std::function<void(const MetricSummary&)>& sink) {
  const std::scoped_lock lock(impl_->mutex);
  database::guarded(impl_->path, [&] {
    Rows rows(impl_->database,
              "SELECT trial, attempts.attempt, metric, points, last, least, greatest "
              "FROM attempts JOIN series ON series.attempt = attempts.number "
              "WHERE attempts.attempt = (SELECT max(attempt) FROM attempts AS newest "
              "WHERE newest.trial = attempts.trial) ORDER BY trial, metric");
    MetricSummary summary;
    while (rows.step()) {
      summary.trial = rows.text(0);
      summary.attempt = static_cast<int>(rows.number(1));
      summary.metric = rows.text(2);
      summary.points = static_cast<std::size_t>(rows.number(3));
      summary.last = value_in(rows, 4);
      summary.least = value_in(rows, 5);
      summary.greatest = value_in(rows, 6);
      sink(summary);
    }
  });
}

void Telemetry::points(const std::string& trial, const std::string& metric,
                       const std::function<void(const MetricPoint&)>& sink) {
  const std::scoped_lock lock(impl_->mutex);
  database::guarded(impl_->path, [&] {
    SQLite::Statement query(impl_->database,
                            "SELECT step, at, value FROM points WHERE series = (SELECT series.number "
                            "FROM series JOIN attempts ON attempts.number = series.attempt "
                            "WHERE trial = ?1 AND metric = ?2 AND attempts.attempt = "
                            "(SELECT max(attempt) FROM attempts WHERE trial = ?1)) ORDER BY place");
    query.bind(1, trial);
    query.bind(2, metric);
    while (query.executeStep())
      sink({.step = query.getColumn(0).getDouble(),
            .at = instant_of<microseconds>(query.getColumn(1).getInt64()),
            .value = query.getColumn(2).isNull() ? std::nan("") : query.getColumn(2).getDouble()});
  });
}

}  // namespace combu
