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

// Returns the path without `.` and a final `/`, and with "a/../b" shortened to "b". Does not access the file
// system.
[[nodiscard]] std::string normalised(const std::filesystem::path& path);

// Returns why combu cannot put a file of the user at this absolute path in a container: the path is in the
// folder of combu's own files. Empty: it is elsewhere.
[[nodiscard]] std::string fault_of_own_folder(std::string_view path);

// True if the relative path leads out of the folder in which it begins, or names this folder itself.
[[nodiscard]] bool leads_out(const std::filesystem::path& path);
// Returns the message about a relative path for which leads_out() is true.
[[nodiscard]] std::string fault_of_scratch_path(const std::string& path);

// Returns a path of the experiment file as an absolute path. `~` is the caller's home folder. A relative path
// starts in the folder of the experiment file.
[[nodiscard]] std::string absolute_path(const std::string& path, const Caller& caller);

}  // namespace combu::spec
