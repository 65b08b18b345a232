#include "jsonnet/number.hpp"

#include <array>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>

namespace combu {

std::string text_of_number(double value) {
  std::array<char, 32> text{};  // -1.7976931348623157e+308
  const auto result =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific);
  std::string_view rest(text.data(), static_cast<std::size_t>(result.ptr - text.data()));
  const bool is_negative = rest.front() == '-';
  if (is_negative) rest.remove_prefix(1);
  const std::size_t mark = rest.find('e');
  int exponent = 0;
  const std::size_t plus = rest[mark + 1] == '+' ? 1 : 0;
  std::from_chars(rest.data() + mark + 1 + plus, rest.data() + rest.size(), exponent);
  std::string digits(rest.substr(0, 1));
  if (mark > 2) digits += rest.substr(2, mark - 2);
  const auto count = static_cast<int>(digits.size());
  if (exponent < 0) {
    digits = "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  } else if (exponent + 1 < count) {
    digits.insert(static_cast<std::size_t>(exponent) + 1, ".");
  } else {
    digits.append(static_cast<std::size_t>(exponent + 1 - count), '0');
  }
  return (is_negative ? "-" : "") + digits;
}

}  // namespace combu
