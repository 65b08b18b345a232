#pragma once
// Functions for SQLite files that several processes share. The functions open, create and upgrade files, read
// untrusted files, and translate SQLite's errors into Error.

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "combu/base.hpp"

namespace combu::database {

inline constexpr std::chrono::milliseconds k_patience{20000};  // maximum wait while another process writes

struct Schema {
  int application_id = 0;  // SQLite's application id, which identifies the kind of database
  // The SQL in steps[N] upgrades a database from version N to version N + 1. Version 0 is an empty database.
  std::span<const std::string_view> steps;
};

// Opens the database at `path`, or creates it as a private file (combu/system.hpp), and upgrades it to the
// newest version. Throws Error(refused) if the file cannot be read or written, or if the disk is full. Throws
// Error(invalid) if the file is damaged, has a newer version than `schema`, belongs to another program, or is
// not private. An invalid file stays unchanged.
[[nodiscard]] SQLite::Database open(const std::string& path, const Schema& schema);

// Returns an empty in-memory database with the newest schema version.
[[nodiscard]] SQLite::Database in_memory(const Schema& schema);

// Opens a database like open(), but creates no file: a missing file is read as an empty database. A file that
// this process cannot write to (see is_read_only()) is read without changes. A read-only file must have the
// newest version of the schema.
[[nodiscard]] SQLite::Database open_to_read(const std::string& path, const Schema& schema);

// Read-only access to an untrusted database that another combu, or an attacker, wrote. The database's own
// triggers and views cannot execute SQL. Reading takes memory and time in proportion to the size of the
// database. Not thread-safe.
class Foreign {
 public:
  // `image` must hold the bytes of the database file. Before the constructor reads any table, it compares all
  // objects (tables, indexes, views) with the objects of the schema. Throws Error(corrupt) with an empty
  // subject unless the objects match one version of the schema. Throws Error(cancelled) once `stop` requests
  // a stop.
  Foreign(std::string image, const Schema& schema, std::stop_token stop);
  ~Foreign();
  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;

  // Returns the version of the schema, at least 1. Tables of an earlier version lack the columns that later
  // versions added.
  [[nodiscard]] std::size_t version() const;
  [[nodiscard]] std::size_t size() const;  // returns the size of the database file, in bytes

  // Calls `body` with the database and returns its result. The number of SQLite instructions that all calls
  // together may execute is proportional to size(). Throws Error(corrupt) if SQLite throws, or if the calls
  // exceed the allowed number of instructions. Throws Error(cancelled) once `stop` requests a stop.
  template <class Body>
  auto read(const Body& body) -> decltype(body(std::declval<SQLite::Database&>())) {
    try {
      return body(database());
    } catch (const SQLite::Exception& exception) {
      throw_refusal(exception);
    }
  }

 private:
  struct Impl;
  [[nodiscard]] SQLite::Database& database();
  [[noreturn]] void throw_refusal(const SQLite::Exception& exception) const;
  std::unique_ptr<Impl> impl_;
};

// Throws the Error that corresponds to `exception`, with `path` as its subject.
[[noreturn]] void throw_as_error(const SQLite::Exception& exception, const std::string& path);

// Calls `body` and returns its result. Converts exceptions of SQLite to Error with throw_as_error().
template <class Body>
auto guarded(const std::string& path, const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const SQLite::Exception& exception) {
    throw_as_error(exception, path);
  }
}

// A query that returns many rows. Rows calls SQLite's C functions directly: each column object of SQLiteCpp
// counts references to the statement, which costs noticeable time at 100,000 trials. The results of text()
// and blob() are valid until the next step().
class Rows {
 public:
  Rows(SQLite::Database& database, const std::string& sql) : database_(database.getHandle()) {
    check(sqlite3_prepare_v2(database_, sql.c_str(), -1, &statement_, nullptr), SQLITE_OK);
  }
  ~Rows() { sqlite3_finalize(statement_); }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  void bind(int place, std::int64_t value) { check(sqlite3_bind_int64(statement_, place, value), SQLITE_OK); }
  // Moves to the next row. Returns false if there is no further row.
  bool step() {
    const int result = sqlite3_step(statement_);
    if (result != SQLITE_ROW) check(result, SQLITE_DONE);
    return result == SQLITE_ROW;
  }
  [[nodiscard]] bool is_null(int column) const {
    return sqlite3_column_type(statement_, column) == SQLITE_NULL;
  }
  // Returns the type of the value in this row, such as SQLITE_INTEGER or SQLITE_NULL, not the declared type
  // of the column.
  [[nodiscard]] int type(int column) const { return sqlite3_column_type(statement_, column); }
  [[nodiscard]] std::int64_t number(int column) const { return sqlite3_column_int64(statement_, column); }
  [[nodiscard]] double real(int column) const { return sqlite3_column_double(statement_, column); }
  [[nodiscard]] std::optional<std::int64_t> number_if_any(int column) const {
    return is_null(column) ? std::nullopt : std::optional(number(column));
  }
  [[nodiscard]] std::string_view blob(int column) const {
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
    return bytes == nullptr
               ? std::string_view()
               : std::string_view(bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
  }
  // Returns the text of a column, or an empty text for NULL.
  [[nodiscard]] std::string_view text(int column) const {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return text == nullptr
               ? std::string_view()
               : std::string_view(text, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
  }

 private:
  void check(int result, int expected) const {
    if (result != expected) throw SQLite::Exception(database_, result);
  }

  sqlite3* database_;
  sqlite3_stmt* statement_ = nullptr;
};

// A statement that is prepared once and executed many times. The arguments of operator() become the
// parameters of the statement, in order.
class Sql {
 public:
  Sql(SQLite::Database& database, const std::string& sql) : statement_(database, sql) {}

  template <class... Values>
  void operator()(const Values&... values) {
    statement_.reset();
    int place = 0;
    (add(place, values), ...);
    statement_.exec();
  }

 private:
  // A value for several parameters, such as a key of two columns, has a member function columns(), which
  // returns a tuple.
  template <class Value>
  void add(int& place, const Value& value) {
    if constexpr (requires { value.columns(); }) {
      std::apply([&](const auto&... columns) { (bind(++place, columns), ...); }, value.columns());
    } else {
      bind(++place, value);
    }
  }
  void bind(int place, std::int64_t value) { statement_.bind(place, value); }
  void bind(int place, int value) { statement_.bind(place, value); }
  void bind(int place, double value) { statement_.bind(place, value); }
  // SQLite need not copy the value, because the value lives until the statement has been executed.
  void bind(int place, const std::string& value) { statement_.bindNoCopy(place, value); }
  void bind(int place, std::string_view value) { statement_.bind(place, std::string(value)); }
  template <class Value>
  void bind(int place, const std::optional<Value>& value) {
    if (value) {
      bind(place, *value);
    } else {
      statement_.bind(place);
    }
  }

  SQLite::Statement statement_;
};

}  // namespace combu::database
