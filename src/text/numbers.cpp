#include <fmt/format.h>

#include <cmath>

#include "combu/text.hpp"

namespace combu {

std::string short_number(double number) {
  constexpr double k_whole_from = 1e4;
  constexpr double k_whole_until = 1e15;  // below this limit, a double represents every integer exactly
  if (std::isnan(number)) return "nan";
  const double size = std::fabs(number);
  const bool is_whole = number == std::trunc(number);
  // Adds 0.0, so that -0 is printed as 0.
  if (size < k_whole_until && (is_whole || size >= k_whole_from)) return fmt::format("{:.0f}", number + 0.0);
  return fmt::format("{:.4g}", number);
}

std::string whole_number(double number) {
  return std::isnan(number) ? "nan" : fmt::format("{}", number);
}

std::string json_number(double number) {
  return std::isfinite(number) ? fmt::format("{}", number) : "null";
}

}  // namespace combu
