#pragma once
// Functions that read files and check UTF-8.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "combu/base.hpp"

namespace combu {

// Returns the number of characters in UTF-8 text.
[[nodiscard]] std::size_t count_characters(std::string_view text);

// Returns the offset of the first byte that is not UTF-8 (RFC 3629: no surrogates, no overlong forms), or
// nullopt.
[[nodiscard]] std::optional<std::size_t> find_bad_utf8(std::string_view text);

// Maximum size of a file that combu reads.
inline constexpr Bytes k_file_max{std::int64_t{1} << 30U};

// Returns the content of the file or pipe at `path`, or nullopt if `path` does not exist. Throws
// Error(invalid, subject) if `path` is a folder, is larger than 1 GiB, or cannot be read.
[[nodiscard]] std::optional<std::string> read_file(const std::string& path, const std::string& subject);

}  // namespace combu
