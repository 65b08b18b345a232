#pragma once
// A number's text, as Jsonnet writes it.

#include <string>

namespace combu {

// The fewest digits that are read as the same number again, without an exponent: 0.1, 1000000, -0. Of two as
// near the larger. `value` is finite. Pure.
[[nodiscard]] std::string text_of_number(double value);

}  // namespace combu
