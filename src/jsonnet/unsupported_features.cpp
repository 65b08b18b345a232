#include "jsonnet/unsupported_features.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "jsonnet/tokens.hpp"

namespace combu {
namespace {

// The sorted names of the fields of std that rsjsonnet 0.5.1 has and libjsonnet 0.18.0 lacks, from
// std.objectFieldsAll(std).
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

// True if `name` is std, or a local variable with the value std, as in `local s = std;`.
bool is_std(std::string_view name, std::string_view before) {
  if (name == "std") return true;
  const std::array<std::string_view, 3> bind{name, "=", "std"};
  std::array<std::string_view, 3> last;
  Tokens tokens(before);
  for (Token token = tokens.next(); token.kind != TokenKind::end; token = tokens.next()) {
    if (last == bind && (token.text == ";" || token.text == ",")) return true;
    last = {last[1], last[2], token.text};
  }
  return false;
}

// True if the code at the place of the error is `std.NAME` or `std["NAME"]`.
bool is_of_std(std::string_view before, std::string_view from, std::string_view name) {
  Tokens tokens(from);
  const std::string_view object = tokens.next().text;
  const std::string_view how = tokens.next().text;
  std::string_view field = tokens.next().text;
  if (how == "[" && field.size() > 2) field = field.substr(1, field.size() - 2);
  return (how == "." || how == "[") && field == name && is_std(object, before);
}

bool is_in(std::string_view characters, char one) {
  return characters.find(one) != std::string_view::npos;
}

// Returns the last word of the text without the blanks at the end of the text.
std::string_view last_word(std::string_view text) {
  text = text.substr(0, text.find_last_not_of(k_blank) + 1);
  const std::size_t before = text.find_last_of(" \t\r\n[({,;:=+");
  return before == std::string_view::npos ? text : text.substr(before + 1);
}

std::string elsewhere(std::string_view what, std::string_view evaluator) {
  return fmt::format(
      "{} not supported by this build's evaluator, {}; use the released binary, or a build with "
      "-DCOMBU_JSONNET=rsjsonnet",
      what, evaluator);
}

}  // namespace

std::optional<std::string> unsupported_features(std::string_view message, std::string_view before,
                                                std::string_view from, bool is_syntax,
                                                std::string_view evaluator) {
  if (evaluator.starts_with("rsjsonnet")) return std::nullopt;
  if (take(message, "field does not exist: ")) {
    if (!std::ranges::binary_search(k_functions, message)) return std::nullopt;
    if (!is_of_std(before, from, message)) return std::nullopt;
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
