#include "jsonnet/lacking.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace combu {
namespace {

// std.objectFieldsAll(std) of rsjsonnet 0.5.1 without that of libjsonnet 0.18.0, sorted.
constexpr std::array<std::string_view, 37> k_functions{"all",
                                                       "any",
                                                       "atan2",
                                                       "avg",
                                                       "contains",
                                                       "deg2rad",
                                                       "equalsIgnoreCase",
                                                       "escapeStringXML",
                                                       "flattenDeepArray",
                                                       "hypot",
                                                       "isDecimal",
                                                       "isEmpty",
                                                       "isEven",
                                                       "isInteger",
                                                       "isNull",
                                                       "isOdd",
                                                       "log10",
                                                       "log2",
                                                       "maxArray",
                                                       "minArray",
                                                       "objectKeysValues",
                                                       "objectKeysValuesAll",
                                                       "objectRemoveKey",
                                                       "pi",
                                                       "rad2deg",
                                                       "remove",
                                                       "removeAt",
                                                       "round",
                                                       "sha1",
                                                       "sha256",
                                                       "sha3",
                                                       "sha512",
                                                       "splitLimitR",
                                                       "sum",
                                                       "trim",
                                                       "xnor",
                                                       "xor"};

constexpr std::string_view k_blank = " \t\r\n";
constexpr std::string_view k_digits = "0123456789";

bool take(std::string_view& rest, std::string_view wanted) {
  if (!rest.starts_with(wanted)) return false;
  rest.remove_prefix(wanted.size());
  return true;
}

// Whether it reads `std.NAME` or `std["NAME"]`.
bool is_of_std(std::string_view from, std::string_view name) {
  if (!take(from, "std")) return false;
  constexpr std::string_view k_between = " \t\r\n.[\"'";
  const std::size_t begin = from.find_first_not_of(k_between);
  return begin != std::string_view::npos && begin > 0 && from.substr(begin).starts_with(name);
}

bool is_in(std::string_view characters, char one) {
  return characters.find(one) != std::string_view::npos;
}

// The word at the text's end, but for blanks.
std::string_view last_word(std::string_view text) {
  text = text.substr(0, text.find_last_not_of(k_blank) + 1);
  const std::size_t before = text.find_last_of(" \t\r\n[({,;:=+");
  return before == std::string_view::npos ? text : text.substr(before + 1);
}

std::string elsewhere(std::string_view what, std::string_view evaluator) {
  return fmt::format(
      "{} not in this build's evaluator, {}; the released binary, and a build with "
      "-DCOMBU_JSONNET=rsjsonnet, "
      "have it",
      what, evaluator);
}

}  // namespace

std::optional<std::string> lacking(std::string_view message, std::string_view before, std::string_view from,
                                   bool is_syntax, std::string_view evaluator) {
  if (evaluator.starts_with("rsjsonnet")) return std::nullopt;
  if (take(message, "field does not exist: ")) {
    if (!std::binary_search(k_functions.begin(), k_functions.end(), message)) return std::nullopt;
    if (!is_of_std(from, message)) return std::nullopt;
    return elsewhere(fmt::format("std.{} is", message), evaluator);
  }
  if (!is_syntax) return std::nullopt;
  const std::string_view word = last_word(before);
  if (word == "importbin" && !from.empty() && is_in("\"'@|", from.front()))
    return elsewhere("importbin is", evaluator);
  const bool is_number = !before.empty() && is_in(k_digits, before.back()) && is_in(k_digits, word.front());
  if (is_number && from.size() > 1 && from[0] == '_' && is_in(k_digits, from[1]))
    return elsewhere("a number with _ between its digits, such as 1_000, is", evaluator);
  if (from.starts_with("|||-") && message.starts_with("text block syntax"))
    return elsewhere("|||- is", evaluator);
  return std::nullopt;
}

}  // namespace combu
