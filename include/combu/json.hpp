#pragma once
// JSON values of nlohmann's library. src/json/json.cpp compiles the slowest parts once for all files: the
// parser, the writer (dump(), a second and a half in each file that calls it) and two constructors. A .cpp
// file includes this header instead of <nlohmann/json.hpp>, which would cost it seconds; a header includes
// <nlohmann/json_fwd.hpp>. parse_json and parse_ordered_json throw nlohmann::json::parse_error if the text is
// not JSON.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

extern template nlohmann::basic_json<>::basic_json(const nlohmann::json&);
extern template nlohmann::basic_json<>::basic_json(
    std::initializer_list<nlohmann::detail::json_ref<nlohmann::json>>, bool, nlohmann::json::value_t);
extern template nlohmann::basic_json<nlohmann::ordered_map>::basic_json(const nlohmann::ordered_json&);
extern template nlohmann::basic_json<nlohmann::ordered_map>::basic_json(
    std::initializer_list<nlohmann::detail::json_ref<nlohmann::ordered_json>>, bool,
    nlohmann::ordered_json::value_t);

namespace combu {

[[nodiscard]] nlohmann::json parse_json(std::string_view text);
// Objects keep the text's order.
[[nodiscard]] nlohmann::ordered_json parse_ordered_json(std::string_view text);
// A value that is_discarded() if the text is not JSON.
[[nodiscard]] nlohmann::json parse_json_or_discard(std::string_view text);

// The value on one line. A byte that is not UTF-8 (an engine's message may hold any) becomes U+FFFD; dump()
// would throw.
[[nodiscard]] std::string json_text(const nlohmann::json& value);
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& value);
// A string as it is, without quotes; any other value as json_text() has it.
template <typename Json>
[[nodiscard]] std::string unquoted_text(const Json& value) {
  return value.is_string() ? value.template get_ref<const std::string&>() : json_text(value);
}

}  // namespace combu
