#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "combu/database.hpp"

namespace combu::database {
namespace {

// Number of SQLite instructions between two calls of the progress handler.
constexpr int k_instructions_step = 100;
// Number of SQLite instructions that suffices to read the declarations of combu's schema. The limit also
// bounds the memory that untrusted declarations can take.
constexpr std::int64_t k_schema_instructions_max = 20000;
// Number of SQLite instructions allowed for each byte of the database file. The number suffices to read all
// rows twice.
constexpr std::int64_t k_instructions_per_byte = 8;
// maximum size of an SQL statement in bytes, including the declaration of a table
constexpr int k_statement_max = 4096;

// Limits of the SQL parser: https://www.sqlite.org/c3ref/c_limit_attached.html
constexpr auto k_limits = std::to_array<std::pair<int, int>>({
    {SQLITE_LIMIT_SQL_LENGTH, k_statement_max},
    {SQLITE_LIMIT_COLUMN, 32},
    {SQLITE_LIMIT_EXPR_DEPTH, 16},
    {SQLITE_LIMIT_COMPOUND_SELECT, 2},
    {SQLITE_LIMIT_VDBE_OP, 2000},
    {SQLITE_LIMIT_FUNCTION_ARG, 8},
    {SQLITE_LIMIT_ATTACHED, 0},
    {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 100},
    {SQLITE_LIMIT_VARIABLE_NUMBER, 16},
    {SQLITE_LIMIT_TRIGGER_DEPTH, 1},
    {SQLITE_LIMIT_WORKER_THREADS, 0},
});

// Settings that https://www.sqlite.org/security.html recommends for untrusted databases.
constexpr auto k_settings = std::to_array<std::pair<int, int>>({
    {SQLITE_DBCONFIG_DEFENSIVE, 1},
    {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
    {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
    {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
    {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
    {SQLITE_DBCONFIG_DQS_DDL, 0},
    {SQLITE_DBCONFIG_DQS_DML, 0},
});

SQLite::Database empty_in_memory() {
  return {":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_NOMUTEX};
}

// Maps the name of each object, for example "table `attempts`", to the object's declaration. Each sequence of
// blanks becomes one space, so that the layout of the schema's source does not matter.
std::map<std::string, std::string> objects_of(SQLite::Database& database) {
  std::map<std::string, std::string> objects;
  Rows rows(database, "SELECT type, name, tbl_name, sql FROM sqlite_schema");
  while (rows.step()) {
    std::string declaration = fmt::format("{} ", shortened(rows.text(2)));
    for (const char letter : rows.text(3)) {
      const bool is_blank = letter == ' ' || letter == '\n' || letter == '\t';
      if (!is_blank)
        declaration += letter;
      else if (!declaration.ends_with(' '))
        declaration += ' ';
    }
    std::string name = fmt::format("{} `{}`", shortened(rows.text(0)), shortened(rows.text(1)));
    if (!objects.emplace(name, std::move(declaration)).second) return {{fmt::format("second {}", name), ""}};
  }
  return objects;
}

std::map<std::string, std::string> objects_of(const Schema& schema, std::size_t version) {
  SQLite::Database fresh = empty_in_memory();
  for (const std::string_view step : schema.steps.first(version)) fresh.exec(std::string(step));
  return objects_of(fresh);
}

[[noreturn]] void refuse(std::string_view why) {
  throw Error(ErrorKind::corrupt, "", fmt::format("the database {}", why));
}

[[noreturn]] void refuse(const SQLite::Exception& exception) {
  refuse(fmt::format("is damaged: {}", shortened(exception.what())));
}

[[noreturn]] void end() {
  throw Error(ErrorKind::cancelled, "", "stopped");
}

}  // namespace

struct Foreign::Impl {
  Impl(std::string bytes, std::stop_token its_stop) : image(std::move(bytes)), stop(std::move(its_stop)) {
    sqlite3* const handle = database.getHandle();
    for (const auto& [limit, most] : k_limits) sqlite3_limit(handle, limit, most);
    for (const auto& [setting, value] : k_settings) sqlite3_db_config(handle, setting, value, nullptr);
    database.exec("PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0; PRAGMA query_only = ON");
    sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, 2 * k_statement_max);
    // SQLite reads the bytes of `image` in place and does not write to them.
    auto* const place = reinterpret_cast<unsigned char*>(image.data());
    const auto size = static_cast<sqlite3_int64>(image.size());
    const int result = sqlite3_deserialize(handle, "main", place, size, size, SQLITE_DESERIALIZE_READONLY);
    if (result != SQLITE_OK) throw SQLite::Exception(handle, result);
    sqlite3_progress_handler(handle, k_instructions_step, &is_to_end, this);
  }

  static int is_to_end(void* of) {
    auto& impl = *static_cast<Impl*>(of);
    impl.instructions_left -= k_instructions_step;
    return impl.stop.stop_requested() || impl.instructions_left < 0 ? 1 : 0;
  }

  void expect_objects(const Schema& schema) {
    const auto number = [&](const char* pragma) {
      return database.execAndGet(fmt::format("PRAGMA {}", pragma)).getInt64();
    };
    if (number("application_id") != schema.application_id) refuse("was not made by combu");
    const std::int64_t its_version = number("user_version");
    if (its_version < 1 || std::cmp_greater(its_version, schema.steps.size()))
      refuse(fmt::format("has the schema version {}; this combu supports 1 to {}", its_version,
                         schema.steps.size()));
    version = static_cast<std::size_t>(its_version);
    const auto theirs = objects_of(database);
    const auto ours = objects_of(schema, version);
    for (const auto& [object, declaration] : theirs) {
      const auto known = ours.find(object);
      if (known == ours.end()) refuse(fmt::format("has the {}, which is not in combu's schema", object));
      if (known->second != declaration)
        refuse(fmt::format("declares the {} differently from combu's schema", object));
    }
    for (const auto& [object, declaration] : ours)
      if (!theirs.contains(object)) refuse(fmt::format("lacks the {}", object));
  }

  std::string image;  // the bytes of the database file, which `database` reads in place
  std::stop_token stop;
  std::int64_t instructions_left = k_schema_instructions_max;
  std::size_t version = 0;
  SQLite::Database database = empty_in_memory();
};

Foreign::Foreign(std::string image, const Schema& schema, std::stop_token stop) {
  if (stop.stop_requested()) end();
  if (image.empty()) refuse("is empty");
  try {
    impl_ = std::make_unique<Impl>(std::move(image), std::move(stop));
  } catch (const SQLite::Exception& exception) {
    refuse(exception);
  }
  read([&](SQLite::Database& database) {
    impl_->expect_objects(schema);
    // No row can be larger than the file, and no statement can read more rows than the file holds.
    const auto size = static_cast<std::int64_t>(impl_->image.size());
    constexpr std::int64_t k_value_max = 1LL << 30U;
    sqlite3_limit(database.getHandle(), SQLITE_LIMIT_LENGTH, static_cast<int>(std::min(size, k_value_max)));
    impl_->instructions_left = k_schema_instructions_max + k_instructions_per_byte * size;
  });
}

Foreign::~Foreign() = default;

std::size_t Foreign::version() const {
  return impl_->version;
}

std::size_t Foreign::size() const {
  return impl_->image.size();
}

SQLite::Database& Foreign::database() {
  return impl_->database;
}

void Foreign::throw_refusal(const SQLite::Exception& exception) const {
  constexpr int k_primary_code = 0xff;  // https://www.sqlite.org/rescode.html
  if (impl_->stop.stop_requested()) end();
  if ((exception.getErrorCode() & k_primary_code) == SQLITE_INTERRUPT)
    refuse("takes more steps to read than a database of its size needs");
  refuse(exception);
}

}  // namespace combu::database
