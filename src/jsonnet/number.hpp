#pragma once
// Formats numbers as Jsonnet does.

#include <string>

namespace combu {

// Returns the shortest decimal text without an exponent that parses to the same number, for example 0.1,
// 1000000 or -0. If two such texts are equally near to `value`, returns the larger one. `value` must be
// finite. Pure.
[[nodiscard]] std::string text_of_number(double value);

}  // namespace combu
