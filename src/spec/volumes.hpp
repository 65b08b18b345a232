#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "combu/spec.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

[[nodiscard]] std::vector<Volume> read_volumes(const Json& value, const Caller& caller, const Place& place,
                                               Report& report);

// Without `.`, without `/` at its end, and without `..` where a folder's name stands before it.
[[nodiscard]] std::string normalised(const std::filesystem::path& path);

// A path of the file as an absolute one: `~` is the caller's home, relative ones begin at the file's folder.
[[nodiscard]] std::string absolute_path(const std::string& path, const Caller& caller);

}  // namespace combu::spec
