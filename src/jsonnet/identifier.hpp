#pragma once
// Where a file asks for the run's identifier.

#include <cstddef>
#include <string_view>
#include <vector>

namespace combu {

// The offset of each UUID in `source` that put_identifier replaces, ascending. Linear, and pure.
[[nodiscard]] std::vector<std::size_t> find_identifiers(std::string_view source);

inline constexpr std::string_view k_identifier = "UUID";

}  // namespace combu
