#pragma once
// Finds the texts "UUID" in a file; combu replaces each of these texts with the run's id.

#include <cstddef>
#include <string_view>
#include <vector>

namespace combu {

// Returns the offset of each text UUID in `source` that put_identifier() replaces, in ascending order. The
// function is pure and takes time that is linear in the length of `source`.
[[nodiscard]] std::vector<std::size_t> find_identifiers(std::string_view source);

inline constexpr std::string_view k_identifier = "UUID";

}  // namespace combu
