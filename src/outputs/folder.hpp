#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "combu/outputs.hpp"

namespace combu::outputs {

inline constexpr mode_t k_permissions = 0777;  // of outputs: nobody becomes another person by one

// Throws Error(refused) about `path`: `what`, and the words of `code`, an errno.
[[noreturn]] void refuse(const std::string& path, const char* what, int code);

// Opens `folder`, an absolute path, and makes what is missing of it, which is `owner`'s then. Follows no
// symbolic link. Throws Error(refused).
[[nodiscard]] Descriptor make_folders(const std::string& folder, std::optional<Owner> owner);

// As one of open_folder(), but for what can be had again: FOLDER/PLACE need not survive a crash of the
// machine.
[[nodiscard]] std::unique_ptr<Parcel> open_passing(const std::string& folder, const std::string& place);

}  // namespace combu::outputs
