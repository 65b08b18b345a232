#include <fmt/format.h>

#include <string>
#include <type_traits>
#include <variant>

#include "combu/analysis.hpp"
#include "combu/text.hpp"

namespace combu {
namespace {

template <class NumberText>
std::string text_of(const Value& value, const NumberText& number_text) {
  return std::visit(
      [&](const auto& one) -> std::string {
        using One = std::decay_t<decltype(one)>;
        if constexpr (std::is_same_v<One, double>) return number_text(one);
        if constexpr (std::is_same_v<One, std::string>) return one;
        return {};
      },
      value);
}

}  // namespace

std::string short_text(const Value& value) {
  return text_of(value, short_number);
}

std::string whole_text(const Value& value) {
  return text_of(value, whole_number);
}

std::string json_value(const Value& value) {
  if (const auto* number = std::get_if<double>(&value)) return json_number(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return json_string(*text);
  return "null";
}

}  // namespace combu
