#pragma once
// The tables, and how one of an older combu gets them.

#include <SQLiteCpp/SQLiteCpp.h>

#include <chrono>
#include <span>
#include <string>
#include <string_view>

namespace combu::record {

inline constexpr std::chrono::milliseconds k_patience{20000};  // while another process writes

// Each brings a database from the version of its place (0: nothing there) to the next. What stands here has
// been used: a change of the schema is another step.
[[nodiscard]] std::span<const std::string_view> schema_steps();

// Opens the database, or makes it, and brings it to the version that `steps` lead to. Throws Error as
// include/combu/record.hpp says.
[[nodiscard]] SQLite::Database open_database(const std::string& path,
                                             std::span<const std::string_view> steps = schema_steps());

// The same; where it cannot be written and has the newest version, as it is.
[[nodiscard]] SQLite::Database open_to_read(const std::string& path);

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

}  // namespace combu::record
