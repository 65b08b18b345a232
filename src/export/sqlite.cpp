#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>

#include "combu/analysis.hpp"
#include "combu/export.hpp"
#include "combu/telemetry.hpp"
#include "combu/text.hpp"
#include "export/replacement.hpp"

namespace combu {
namespace {

constexpr const char* k_tables = R"sql(
  CREATE TABLE runs (
    run TEXT PRIMARY KEY, experiment TEXT NOT NULL, file TEXT NOT NULL, revision TEXT,
    began_at TEXT NOT NULL, ended_at TEXT
  );
  CREATE TABLE trials (
    run TEXT NOT NULL REFERENCES runs, trial TEXT NOT NULL, attempt INTEGER NOT NULL, state TEXT NOT NULL,
    exit_code INTEGER, cause TEXT, reason TEXT, image TEXT, digest TEXT, ran_at TEXT, ended_at TEXT,
    seconds REAL, PRIMARY KEY (run, trial)
  );
  CREATE TABLE params (
    run TEXT NOT NULL, trial TEXT NOT NULL, param TEXT NOT NULL, value,
    PRIMARY KEY (run, trial, param), FOREIGN KEY (run, trial) REFERENCES trials
  );
  CREATE TABLE metrics (
    run TEXT NOT NULL, trial TEXT NOT NULL, metric TEXT NOT NULL, last REAL, least REAL, greatest REAL,
    points INTEGER NOT NULL,
    PRIMARY KEY (run, trial, metric), FOREIGN KEY (run, trial) REFERENCES trials
  );
  CREATE TABLE points (
    run TEXT NOT NULL, trial TEXT NOT NULL, metric TEXT NOT NULL, place INTEGER NOT NULL, step REAL,
    time TEXT NOT NULL, value REAL,
    PRIMARY KEY (run, trial, metric, place), FOREIGN KEY (run, trial) REFERENCES trials
  ) WITHOUT ROWID;
)sql";

class Insert {
 public:
  Insert(SQLite::Database& database, const char* sql) : statement_(database, sql) {}

  // SQLite stores NaN as NULL (https://www.sqlite.org/c3ref/bind_blob.html).
  template <class... Values>
  void operator()(const Values&... values) {
    statement_.reset();
    statement_.clearBindings();
    int place = 0;
    (bind(++place, values), ...);
    statement_.exec();
  }

 private:
  void bind(int place, const std::string& text) { statement_.bind(place, text); }
  void bind(int place, std::string_view text) { statement_.bind(place, std::string(text)); }
  void bind(int place, double number) { statement_.bind(place, number); }
  void bind(int place, std::int64_t number) { statement_.bind(place, number); }
  void bind(int place, int number) { statement_.bind(place, number); }
  void bind(int place, const Value& value) {
    if (const auto* number = std::get_if<double>(&value)) bind(place, *number);
    if (const auto* text = std::get_if<std::string>(&value)) bind(place, *text);
  }
  template <class One>
  void bind(int place, const std::optional<One>& value) {
    if (value) bind(place, *value);
  }

  SQLite::Statement statement_;
};

std::optional<std::string> timestamp(const std::optional<Instant>& at) {
  return at ? std::optional(rfc3339(*at)) : std::nullopt;
}

std::optional<std::string> text_or_none(std::string_view text) {
  return text.empty() ? std::nullopt : std::optional(std::string(text));
}

class Writer {
 public:
  explicit Writer(SQLite::Database& database) : database_(database) {}

  void add(const Results& results) {
    const RunEntry& run = results.run;
    add_run_(run.id.text(), run.experiment, run.file, text_or_none(run.revision), rfc3339(run.began_at),
             timestamp(run.ended_at));
    const Instant now = real_clock().now();
    for (const ResultRow& row : results.rows) add(results, row, now);
  }

 private:
  void add(const Results& results, const ResultRow& row, Instant now) {
    const std::string& run = results.run.id.text();
    const TrialEntry& entry = row.trial;
    const auto time = time_of(entry, now);
    add_trial_(run, entry.name, entry.attempt, to_string(entry.state), entry.exit_code,
               text_or_none(entry.cause == Cause::none ? "" : to_string(entry.cause)),
               text_or_none(reason_text(entry)), entry.image, text_or_none(entry.digest),
               timestamp(entry.ran_at), timestamp(entry.ended_at),
               time ? std::optional(time->count()) : std::nullopt);
    for (std::size_t i = 0; i < results.params.size(); ++i)
      if (!std::holds_alternative<std::monostate>(row.params[i]))
        add_param_(run, entry.name, results.params[i], row.params[i]);
    for (std::size_t i = 0; i < results.metrics.size(); ++i) {
      const TrialMetric& metric = row.metrics[i];
      if (metric.points == 0) continue;
      add_metric_(run, entry.name, results.metrics[i], metric.last, metric.least, metric.greatest,
                  static_cast<std::int64_t>(metric.points));
      std::int64_t place = 0;
      results.telemetry->points(entry.name, results.metrics[i], [&](const MetricPoint& point) {
        add_point_(run, entry.name, results.metrics[i], place++, point.step, rfc3339(point.at), point.value);
      });
    }
  }

  SQLite::Database& database_;
  Insert add_run_{database_, "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?)"};
  Insert add_trial_{database_, "INSERT INTO trials VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"};
  Insert add_param_{database_, "INSERT INTO params VALUES (?, ?, ?, ?)"};
  Insert add_metric_{database_, "INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?, ?)"};
  Insert add_point_{database_, "INSERT INTO points VALUES (?, ?, ?, ?, ?, ?, ?)"};
};

void write(const std::string& path, std::span<const Results> runs) {
  SQLite::Database database(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  // The file needs no journal: only this process uses the file until the file is renamed.
  database.exec("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF");
  SQLite::Transaction transaction(database);
  database.exec(k_tables);
  Writer writer(database);
  for (const Results& run : runs) writer.add(run);
  transaction.commit();
}

}  // namespace

void export_sqlite(const std::string& path, std::span<const Results> runs) {
  Replacement replacement(path);
  try {
    write(replacement.beside(), runs);
  } catch (const SQLite::Exception& exception) {
    throw Error(ErrorKind::refused, path, fmt::format("cannot be written: {}", exception.what()));
  }
  replacement.commit();
}

}  // namespace combu
