#pragma once
// Finds where a file requests the run's identifier.

#include <cstddef>
#include <string_view>
#include <vector>

namespace combu {

// Returns the offsets of the texts UUID in `source` that put_identifier() replaces, in ascending order. Pure,
// and linear in the length of `source`.
[[nodiscard]] std::vector<std::size_t> find_identifiers(std::string_view source);

inline constexpr std::string_view k_identifier = "UUID";

}  // namespace combu
