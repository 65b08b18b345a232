#pragma once
// Opens and makes the folders that contain outputs.

#include <sys/types.h>

#include <optional>
#include <string>

#include "combu/outputs.hpp"

namespace combu::outputs {

// The permission bits that outputs keep when combu writes them. combu drops the set-user-ID and set-group-ID
// bits.
inline constexpr mode_t k_permissions = 0777;

// Throws Error(refused) with `path` as subject. The message is `what` and the text of the errno value `code`.
[[noreturn]] void refuse(const std::string& path, const char* what, int code);

// Opens `folder`, an absolute path, for reading. If the folder does not exist, the returned descriptor is not
// open. Follows no symbolic link. Throws Error(refused).
[[nodiscard]] Descriptor open_place(const std::string& folder);

// Like open_place(), but makes missing folders, which then belong to `owner`.
[[nodiscard]] Descriptor make_folders(const std::string& folder, std::optional<Owner> owner);

}  // namespace combu::outputs
