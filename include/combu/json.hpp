#pragma once
// JSON values of nlohmann's library. src/json/json.cpp compiles the slowest parts once for all files: the
// parser, the writer (dump(), a second and a half in each file that calls it) and two constructors. A .cpp
// file includes this header instead of <nlohmann/json.hpp>, which would cost it seconds; a header includes
// <nlohmann/json_fwd.hpp>.

#include <cstddef>
#include <cstdint>
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

// How deep arrays and objects of a text may be nested: nlohmann's library copies, compares and writes a value
// recursively. An experiment may nest half as deep, and the record holds its values inside of a few levels.
inline constexpr std::size_t k_json_depth_max = 512;

// The value of a text. Nothing else may call nlohmann's parser, which has no limit of depth. They throw
// nlohmann::json::exception if the text is not JSON, or nested deeper than k_json_depth_max.
[[nodiscard]] nlohmann::json parse_json(std::string_view text);
// `//` and `/* */` are ignored.
[[nodiscard]] nlohmann::json parse_json_with_comments(std::string_view text);
// Objects keep the text's order.
[[nodiscard]] nlohmann::ordered_json parse_ordered_json(std::string_view text);
// Returns a value that is_discarded() instead of throwing.
[[nodiscard]] nlohmann::json parse_json_or_discard(std::string_view text);

// The member of this name, or null if it is absent. Null has no members; of any other value that is not an
// object, nlohmann::json::exception is thrown.
[[nodiscard]] const nlohmann::json& json_at(const nlohmann::json& object, const char* name);
// A number without a fraction in this range; nlohmann::json::exception is thrown for all else. get() wraps a
// number that its type cannot hold, and is undefined for a fraction.
[[nodiscard]] std::int64_t integer_of(const nlohmann::json& value, std::int64_t least, std::int64_t most);
// The same of a member; 0 if it is absent or null.
[[nodiscard]] std::int64_t integer_at(const nlohmann::json& object, const char* name, std::int64_t least,
                                      std::int64_t most);

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
