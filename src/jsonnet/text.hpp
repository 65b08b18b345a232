#pragma once
// Reading files and holding bytes against UTF-8.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "combu/base.hpp"

namespace combu {

// Of UTF-8 text.
[[nodiscard]] std::size_t count_characters(std::string_view text);

// The offset of the first byte that is not UTF-8 (RFC 3629: no surrogates, nothing overlong), or nullopt.
[[nodiscard]] std::optional<std::size_t> find_bad_utf8(std::string_view text);

// Most that is read of one file.
inline constexpr Bytes k_file_max{std::int64_t{1} << 30U};

// The bytes of a file that the caller named, which may be a pipe, or nullopt when no such file exists. Throws
// Error(invalid, subject) when it is a folder, is larger than 1 GiB, or cannot be read.
[[nodiscard]] std::optional<std::string> read_file(const std::string& path, const std::string& subject);

}  // namespace combu
