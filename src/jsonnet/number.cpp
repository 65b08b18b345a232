#include "jsonnet/number.hpp"

#include <array>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>

namespace combu {
namespace {

using Buffer = std::array<char, 800>;  // the exact decimal form of a double has at most 767 digits

std::string_view scientific(double value, std::size_t decimals, Buffer& buffer) {
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                    std::chars_format::scientific, static_cast<int>(decimals));
  return {buffer.data(), static_cast<std::size_t>(result.ptr - buffer.data())};
}

// If two shortest texts are equally near to the number, chooses the larger text, as Rust does.
// std::to_chars() chooses the text with an even last digit. Only texts of at least 15 digits can be equally
// near.
void round_up_halves(double size, std::string& digits) {
  constexpr std::size_t k_digits_min = 15;
  if (digits.size() < k_digits_min) return;
  Buffer buffer{};
  // index of the first digit after `digits` in the text of scientific(), in which the decimal point counts
  const std::size_t next = digits.size() + 1;
  if (scientific(size, digits.size(), buffer)[next] != '5') return;
  constexpr std::size_t k_decimals = 766;
  const std::string_view exact = scientific(size, k_decimals, buffer);
  if (exact.substr(next + 1, k_decimals + 1 - next).find_first_not_of('0') != std::string_view::npos) return;
  digits.back() = static_cast<char>(exact[next - 1] + 1);
}

}  // namespace

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
  round_up_halves(is_negative ? -value : value, digits);
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
