#include "record/schema.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <system_error>

#include "combu/base.hpp"

namespace combu::record {
namespace {

constexpr int k_application_id = 0x636d6275;  // "cmbu"
constexpr int k_patience_ms = k_patience.count();

// Times are microseconds since 1970, states and causes the words of to_string(). A trial's state while it is
// not over, and what happened when, follow from its attempts: they are views. Attempts before `first_attempt`
// are of earlier tries, which `retry` has left behind; failures that it has left as they were are forgiven.
constexpr std::array<std::string_view, 4> k_steps{R"sql(
  CREATE TABLE experiments (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
  );
  CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    experiment INTEGER NOT NULL REFERENCES experiments,
    file TEXT NOT NULL,
    folder TEXT NOT NULL,
    source TEXT NOT NULL,
    evaluated TEXT NOT NULL,
    arguments TEXT NOT NULL,
    options TEXT NOT NULL,
    revision TEXT NOT NULL,
    revision_dirty INTEGER NOT NULL,
    address TEXT NOT NULL,
    engine TEXT NOT NULL,
    user TEXT NOT NULL,
    machine TEXT NOT NULL,
    program TEXT NOT NULL,
    began_at INTEGER NOT NULL,
    working_since INTEGER NOT NULL,
    failures_forgiven INTEGER NOT NULL DEFAULT 0,
    ended_at INTEGER
  );
  CREATE INDEX runs_of_experiment ON runs (experiment);
  CREATE TABLE trials (
    run INTEGER NOT NULL REFERENCES runs,
    trial INTEGER NOT NULL,
    name TEXT NOT NULL,
    image TEXT NOT NULL,
    params TEXT NOT NULL,
    first_attempt INTEGER NOT NULL DEFAULT 1,
    over TEXT,
    over_at INTEGER,
    reason TEXT,
    root INTEGER,
    PRIMARY KEY (run, trial)
  ) WITHOUT ROWID;
  CREATE TABLE attempts (
    run INTEGER NOT NULL REFERENCES runs,
    trial INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    container TEXT,
    nano_cpus INTEGER NOT NULL,
    memory INTEGER NOT NULL,
    ready_at INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ran_at INTEGER,
    healthy_at INTEGER,
    ended_at INTEGER,
    exit_code INTEGER,
    cause TEXT,
    reason TEXT,
    PRIMARY KEY (run, trial, attempt)
  ) WITHOUT ROWID;
  CREATE VIEW states AS
    SELECT trials.run, trials.trial, name, image, params,
      coalesce(over, CASE
        WHEN attempt IS NULL THEN 'waiting'
        WHEN ended_at IS NOT NULL THEN 'retrying'
        WHEN ran_at IS NOT NULL THEN 'running'
        ELSE 'starting' END) AS state,
      coalesce(attempt, first_attempt) AS attempt, first_attempt, exit_code, coalesce(cause, 'none') AS cause,
      coalesce(trials.reason, attempts.reason, '') AS reason, root, ran_at
    FROM trials LEFT JOIN attempts ON attempts.run = trials.run AND attempts.trial = trials.trial
      AND attempt >= first_attempt
      AND attempt = (SELECT max(attempt) FROM attempts AS last
                     WHERE last.run = trials.run AND last.trial = trials.trial);
  CREATE VIEW events AS
    SELECT run, ready_at AS at, trial, attempt, 'ready' AS state, NULL AS exit_code, NULL AS cause, NULL AS reason
      FROM attempts
    UNION ALL SELECT run, started_at, trial, attempt, 'starting', NULL, NULL, NULL FROM attempts
    UNION ALL SELECT run, ran_at, trial, attempt, 'running', NULL, NULL, NULL FROM attempts WHERE ran_at IS NOT NULL
    UNION ALL SELECT run, healthy_at, trial, attempt, 'healthy', NULL, NULL, NULL FROM attempts
      WHERE healthy_at IS NOT NULL
    UNION ALL SELECT run, ended_at, trial, attempt, 'ended', exit_code, cause, reason FROM attempts
      WHERE ended_at IS NOT NULL
    UNION ALL SELECT run, over_at, trial, NULL, over, NULL, NULL, reason FROM trials WHERE over IS NOT NULL;
)sql",
                                                  // Durations are microseconds, too. A run's texts may be
                                                  // megabytes: apart from the rest of its row, which is read
                                                  // and written often.
                                                  R"sql(
  CREATE INDEX trials_by_name ON trials (run, name);
  ALTER TABLE trials ADD COLUMN digest TEXT;
  ALTER TABLE runs ADD COLUMN evaluated_in INTEGER;
  ALTER TABLE runs ADD COLUMN prepared_in INTEGER;
  ALTER TABLE attempts ADD COLUMN created_in INTEGER;
  ALTER TABLE attempts ADD COLUMN started_in INTEGER;
  ALTER TABLE attempts ADD COLUMN gpus TEXT;
  ALTER TABLE attempts ADD COLUMN memory_peak INTEGER;
  ALTER TABLE attempts ADD COLUMN cpu_time INTEGER;
  CREATE TABLE texts (
    run INTEGER NOT NULL REFERENCES runs,
    revision INTEGER NOT NULL,
    source TEXT NOT NULL,
    evaluated TEXT NOT NULL,
    PRIMARY KEY (run, revision)
  );
  INSERT INTO texts SELECT number, 1, source, evaluated FROM runs;
  ALTER TABLE trials ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;
  ALTER TABLE runs DROP COLUMN source;
  ALTER TABLE runs DROP COLUMN evaluated;
)sql",
                                                  // When an attempt's outputs came home (0: they have not
                                                  // yet, NULL: there are none); why it was being stopped;
                                                  // what becomes of its trial when it is stopped since the
                                                  // file has been edited. Of one that has failed: since
                                                  // when the next one waits for slots, and the memory that
                                                  // it wants.
                                                  R"sql(
  ALTER TABLE attempts ADD COLUMN collected_at INTEGER;
  ALTER TABLE attempts ADD COLUMN doom TEXT;
  ALTER TABLE attempts ADD COLUMN leaving TEXT;
  ALTER TABLE attempts ADD COLUMN next_ready_at INTEGER;
  ALTER TABLE attempts ADD COLUMN next_memory INTEGER;
  DROP VIEW states;
  DROP VIEW events;
  CREATE VIEW states AS
    SELECT trials.run, trials.trial, name, image, params,
      coalesce(over, CASE
        WHEN attempt IS NULL THEN 'waiting'
        WHEN collected_at = 0 THEN 'collecting'
        WHEN next_ready_at IS NOT NULL THEN 'ready'
        WHEN ended_at IS NOT NULL THEN 'retrying'
        WHEN ran_at IS NOT NULL THEN 'running'
        ELSE 'starting' END) AS state,
      coalesce(attempt, first_attempt) AS attempt, first_attempt, exit_code, coalesce(cause, 'none') AS cause,
      coalesce(trials.reason, attempts.reason, '') AS reason, root, ran_at
    FROM trials LEFT JOIN attempts ON attempts.run = trials.run AND attempts.trial = trials.trial
      AND attempt >= first_attempt
      AND attempt = (SELECT max(attempt) FROM attempts AS last
                     WHERE last.run = trials.run AND last.trial = trials.trial);
  CREATE VIEW events AS
    SELECT run, ready_at AS at, trial, attempt, 'ready' AS state, NULL AS exit_code, NULL AS cause, NULL AS reason
      FROM attempts
    UNION ALL SELECT run, started_at, trial, attempt, 'starting', NULL, NULL, NULL FROM attempts
    UNION ALL SELECT run, ran_at, trial, attempt, 'running', NULL, NULL, NULL FROM attempts WHERE ran_at IS NOT NULL
    UNION ALL SELECT run, healthy_at, trial, attempt, 'healthy', NULL, NULL, NULL FROM attempts
      WHERE healthy_at IS NOT NULL
    UNION ALL SELECT run, ended_at, trial, attempt, 'ended', exit_code, cause, reason FROM attempts
      WHERE ended_at IS NOT NULL
    UNION ALL SELECT run, collected_at, trial, attempt, 'collected', NULL, NULL, NULL FROM attempts
      WHERE collected_at > 0
    UNION ALL SELECT run, over_at, trial, NULL, over, NULL, NULL, reason FROM trials WHERE over IS NOT NULL;
)sql",
                                                  // Where a run's outputs are; that a trial is to be done
                                                  // again, whatever has been done; its inputs' hashes; how
                                                  // the working tree differed; what names each image
                                                  // exactly; and what trials with `cache` are known by,
                                                  // with the equal one's run and name where there was one.
                                                  R"sql(
  ALTER TABLE runs ADD COLUMN results TEXT;
  ALTER TABLE trials ADD COLUMN anew INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE trials ADD COLUMN inputs TEXT;
  CREATE TABLE working_trees (
    run INTEGER PRIMARY KEY REFERENCES runs,
    diff TEXT NOT NULL,
    is_cut INTEGER NOT NULL,
    untracked TEXT NOT NULL,
    left_out TEXT NOT NULL
  );
  CREATE TABLE images (
    run INTEGER NOT NULL REFERENCES runs,
    image TEXT NOT NULL,
    platform TEXT NOT NULL,
    reference TEXT NOT NULL,
    PRIMARY KEY (run, image, platform)
  ) WITHOUT ROWID;
  CREATE TABLE recollections (
    run INTEGER NOT NULL REFERENCES runs,
    trial INTEGER NOT NULL,
    hash TEXT NOT NULL,
    parts TEXT NOT NULL,
    equal_run TEXT,
    equal_trial TEXT,
    PRIMARY KEY (run, trial)
  ) WITHOUT ROWID;
  CREATE INDEX recollections_by_hash ON recollections (hash);
)sql"};

int pragma(SQLite::Database& database, const char* name) {
  return database.execAndGet(fmt::format("PRAGMA {}", name)).getInt();
}

bool is_empty(SQLite::Database& database) {
  return database.execAndGet("SELECT count(*) FROM sqlite_master").getInt() == 0;
}

// The version that it has; 0 when there is nothing in it. Throws for one that is not to be touched.
int version_of(SQLite::Database& database, const std::string& path, int version_max) {
  const int version = pragma(database, "user_version");
  if (is_empty(database)) return 0;
  if (pragma(database, "application_id") != k_application_id)
    throw Error(ErrorKind::invalid, path,
                "is a database of another program; move it away, or name another folder with COMBU_HOME");
  if (version > version_max)
    throw Error(
        ErrorKind::invalid, path,
        fmt::format("was made by a newer combu (its schema is {}, this one knows {}); use that one, or "
                    "name another folder with COMBU_HOME",
                    version, version_max));
  return version;
}

// What a run was given may be a secret. SQLite gives its other files the same rights. That it cannot be made,
// SQLite tells better.
void make_private(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file >= 0) close(file);
}

void take_steps(SQLite::Database& database, const std::string& path,
                std::span<const std::string_view> steps) {
  SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
  // Another process may have been faster.
  const int version = version_of(database, path, static_cast<int>(steps.size()));
  for (const std::string_view step : steps.subspan(static_cast<std::size_t>(version)))
    database.exec(std::string(step));
  database.exec(
      fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", k_application_id, steps.size()));
  transaction.commit();
}

}  // namespace

std::span<const std::string_view> schema_steps() {
  return k_steps;
}

SQLite::Database open_database(const std::string& path, std::span<const std::string_view> steps) {
  const int newest = static_cast<int>(steps.size());
  return guarded(path, [&] {
    // Looked at before anything is opened for writing.
    if (std::filesystem::exists(path)) {
      SQLite::Database existing(path, SQLite::OPEN_READONLY, k_patience_ms);
      (void)version_of(existing, path, newest);
    } else {
      make_private(path);
    }
    // It is one thread's: SQLite's own locks would take a tenth of the time of a large listing.
    SQLite::Database database(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE | SQLite::OPEN_NOMUTEX,
                              k_patience_ms);
    // In WAL mode a commit that returned survives the end of the process, and a crash of the machine leaves
    // the database whole, short of the last commits at most
    // (https://www.sqlite.org/pragma.html#pragma_synchronous).
    database.exec(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 10000");
    if (version_of(database, path, newest) < newest) take_steps(database, path, steps);
    return database;
  });
}

namespace {

// A path in a URI.
std::string escaped(const std::string& path) {
  std::string text;
  for (const char letter : path)
    text += letter == '%' || letter == '?' || letter == '#' ? fmt::format("%{:02X}", letter)
                                                            : std::string(1, letter);
  return text;
}

// What is committed and not in the file itself yet is in a log, which SQLite reads only beside an index that
// it may have to make. Throws Error, or `why` where that is not possible.
SQLite::Database open_as_it_is(const std::string& path, const Error& why) {
  const auto open = [&](const std::string& name, int flags) {
    SQLite::Database database(name, SQLite::OPEN_READONLY | SQLite::OPEN_NOMUTEX | flags, k_patience_ms);
    if (version_of(database, path, static_cast<int>(k_steps.size())) < static_cast<int>(k_steps.size()))
      throw Error(why);
    return database;
  };
  try {
    return open(path, 0);
  } catch (const SQLite::Exception&) {
    std::error_code none;
    const auto size = std::filesystem::file_size(path + "-wal", none);
    if (!none && size > 0) throw Error(why);
    return open(fmt::format("file:{}?immutable=1", escaped(path)), SQLite::OPEN_URI);
  }
}

}  // namespace

SQLite::Database open_to_read(const std::string& path) {
  try {
    return open_database(path);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::refused || !std::filesystem::exists(path)) throw;
    return guarded(path, [&] { return open_as_it_is(path, error); });
  }
}

void throw_as_error(const SQLite::Exception& exception, const std::string& path) {
  constexpr int k_primary = 0xff;  // the rest says more of it: https://www.sqlite.org/rescode.html
  const std::string why = exception.what();
  switch (exception.getErrorCode() & k_primary) {
    case SQLITE_ERROR:  // its tables are not those of its version
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      throw Error(ErrorKind::invalid, path,
                  fmt::format("is damaged ({}); move it away to begin a new record, or name another folder "
                              "with COMBU_HOME",
                              why));
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
      throw Error(ErrorKind::refused, path,
                  fmt::format("cannot be opened for reading and writing ({}); is its folder, or its disk, "
                              "read-only? COMBU_HOME names another folder",
                              why));
    case SQLITE_FULL:
      throw Error(ErrorKind::refused, path, "the disk is full");
    case SQLITE_BUSY:
      throw Error(ErrorKind::refused, path, "another process has been writing to it for too long");
    default:
      throw Error(ErrorKind::refused, path, fmt::format("cannot be used: {}", why));
  }
}

}  // namespace combu::record
