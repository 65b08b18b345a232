#pragma once
// Which experiment a file is, and who runs it.

#include <string>

#include "combu/spec.hpp"

namespace combu {

// The absolute path that an experiment is known by, of the -f that was given; the file need not exist.
// "FOLDER/-" for standard input.
[[nodiscard]] std::string identity_of(const std::string& file);

[[nodiscard]] Caller caller_of(const std::string& file);

// For the record: the caller's name (its number when it has none), and this machine's.
[[nodiscard]] std::string user_name();
[[nodiscard]] std::string machine_name();

}  // namespace combu
