#pragma once
// Names of trials as people read them: "solver-2" before "solver-10", and "solver-[1-10]" for ten of them.

#include <string>
#include <string_view>
#include <vector>

namespace combu {

// The order in which numbers in names count by their value.
[[nodiscard]] bool is_before(std::string_view left, std::string_view right);

// Names that differ in their last number only, and follow one another in it, become one: "solver-a-[1-5]",
// "solver-[08-10]". In the order of the first of each.
[[nodiscard]] std::vector<std::string> ranges(const std::vector<std::string_view>& names);

}  // namespace combu
