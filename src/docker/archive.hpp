#pragma once

#include <string>
#include <string_view>

namespace combu::docker {

// A tar archive with one file, readable by all, and the folders above it. `path` is relative:
// "combu/params.json". Throws Error(invalid).
[[nodiscard]] std::string tar_of(const std::string& path, std::string_view content);

}  // namespace combu::docker
