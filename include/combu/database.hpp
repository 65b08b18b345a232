#pragma once
// An SQLite file that several processes share: how it is opened, made and brought up to date, and what its
// errors mean to a person.

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

inline constexpr std::chrono::milliseconds k_patience{20000};  // while another process writes

struct Schema {
  int application_id = 0;  // which no other kind of database has
  // Each brings a database from the version of its place (0: nothing there) to the next.
  std::span<const std::string_view> steps;
};

// Opens the database, or makes it as a private file (combu/system.hpp), and brings it to the version that the
// steps lead to. Throws Error: `refused` when it cannot be read or written, or the disk is full; `invalid`
// when it is damaged, has a newer version, is another program's, or is not private: then it has not been
// touched.
[[nodiscard]] SQLite::Database open(const std::string& path, const Schema& schema);

// An empty database of the newest version that has no file.
[[nodiscard]] SQLite::Database in_memory(const Schema& schema);

// The same as open(), but makes no file: a missing one is read as an empty database. If the file is read-only
// to this process (is_read_only(), which holds for another user's file) and has the newest version, it is
// read as it is.
[[nodiscard]] SQLite::Database open_to_read(const std::string& path, const Schema& schema);

// Read-only access to a database that another combu, or an attacker, has written. The database cannot execute
// SQL of its own, and reading takes memory and time in proportion to its size. Belongs to one thread.
class Foreign {
 public:
  // `image`: the bytes of the file. Reads no table before all objects (tables, indexes, views) have been
  // compared with those of the schema. Throws Error(corrupt) with an empty subject unless they are the
  // objects of one of its versions; Error(cancelled) once `stop` is set.
  Foreign(std::string image, const Schema& schema, std::stop_token stop);
  ~Foreign();
  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;

  // At least 1; tables of an earlier version lack the columns of later ones.
  [[nodiscard]] std::size_t version() const;
  [[nodiscard]] std::size_t size() const;  // of the image in bytes

  // Calls `body` with the database. Its statements together execute a number of SQLite's instructions that is
  // proportional to the size. Throws Error(corrupt) for what SQLite throws, and at that bound;
  // Error(cancelled) once `stop` is set.
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

// The Error that this one is.
[[noreturn]] void throw_as_error(const SQLite::Exception& exception, const std::string& path);

// Calls `body`, and throws Error for what SQLite throws.
template <class Body>
auto guarded(const std::string& path, const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const SQLite::Exception& exception) {
    throw_as_error(exception, path);
  }
}

// A query of many rows, straight from SQLite's own functions: SQLiteCpp's columns each count who holds the
// statement, which shows where there are 100,000 trials. Texts are valid until the next step.
class Rows {
 public:
  Rows(SQLite::Database& database, const std::string& sql) : database_(database.getHandle()) {
    check(sqlite3_prepare_v2(database_, sql.c_str(), -1, &statement_, nullptr), SQLITE_OK);
  }
  ~Rows() { sqlite3_finalize(statement_); }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  void bind(int place, std::int64_t value) { check(sqlite3_bind_int64(statement_, place, value), SQLITE_OK); }
  // False: there are no more.
  bool step() {
    const int result = sqlite3_step(statement_);
    if (result != SQLITE_ROW) check(result, SQLITE_DONE);
    return result == SQLITE_ROW;
  }
  [[nodiscard]] bool is_null(int column) const {
    return sqlite3_column_type(statement_, column) == SQLITE_NULL;
  }
  // SQLITE_INTEGER, SQLITE_FLOAT, SQLITE_TEXT, SQLITE_BLOB or SQLITE_NULL: that of the value, not of the
  // column.
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
  // Empty: it may be NULL, too.
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

// One statement, made once and used again. Values are bound in order.
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
  // A key of several columns has a function columns() that returns them as a tuple.
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
  // Not copied: it outlives the call.
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
