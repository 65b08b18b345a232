#pragma once
// The folders that outputs are put into.

#include <sys/types.h>

#include <optional>
#include <string>

#include "combu/outputs.hpp"

namespace combu::outputs {

inline constexpr mode_t k_permissions = 0777;  // of outputs: nobody becomes another person by one

// Throws Error(refused) about `path`: `what`, and the words of `code`, an errno.
[[noreturn]] void refuse(const std::string& path, const char* what, int code);

// Opens `folder`, an absolute path, for reading; not open: it does not exist. Follows no symbolic link.
// Throws Error(refused).
[[nodiscard]] Descriptor open_place(const std::string& folder);

// The same, but makes what is missing of it, which is `owner`'s then.
[[nodiscard]] Descriptor make_folders(const std::string& folder, std::optional<Owner> owner);

}  // namespace combu::outputs
