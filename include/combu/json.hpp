#pragma once
// JSON values of the nlohmann library. Some templates take long to compile: the parser, the writer and two
// constructors. Only src/json/json.cpp compiles these templates. Compiling dump() alone takes 1.5 seconds for
// each file that calls dump(). A .cpp file must include combu/json.hpp instead of <nlohmann/json.hpp>, which
// would add seconds to its compilation. A header must include <nlohmann/json_fwd.hpp>.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>
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

// Maximum nesting depth of arrays and objects in a JSON text. The limit exists because the nlohmann library
// copies, compares and writes values recursively. Values in an experiment file may be nested half as deep as
// this limit; the record nests these values a few levels deeper.
inline constexpr std::size_t k_json_depth_max = 512;

// The parse functions return the value of a JSON text. The parse functions throw nlohmann::json::exception if
// the text is not JSON, or is nested deeper than k_json_depth_max. Other code must not call the parser of the
// nlohmann library, which has no depth limit.
[[nodiscard]] nlohmann::json parse_json(std::string_view text);
// Like parse_json(), but ignores `//` and `/* */` comments.
[[nodiscard]] nlohmann::json parse_json_with_comments(std::string_view text);
// Like parse_json(), but objects keep the order of their members in the text.
[[nodiscard]] nlohmann::ordered_json parse_ordered_json(std::string_view text);
// Like parse_json(), but if parse_json() would throw, returns a value for which is_discarded() is true.
// `skipped`: names of members whose arrays and objects are not parsed, because that takes long; they are null
// in the result. The text must have no blanks around these names, as a server writes it. A name must begin
// with a letter and have no character that JSON escapes. Errors in the skipped text are not found, except a
// missing end.
[[nodiscard]] nlohmann::json parse_json_or_discard(std::string_view text,
                                                   std::span<const std::string_view> skipped = {});

// Returns the member `name`, or null if the member is absent or `object` is null. Throws
// nlohmann::json::exception if `object` is neither an object nor null.
[[nodiscard]] const nlohmann::json& json_at(const nlohmann::json& object, const char* name);
// Returns the number in `value` if it is an integer within [least, most]. Throws nlohmann::json::exception
// for any other value. Use integer_of() instead of get(), which wraps numbers that are out of range and has
// undefined behaviour for fractions.
[[nodiscard]] std::int64_t integer_of(const nlohmann::json& value, std::int64_t least, std::int64_t most);
// Returns integer_of() of the member `name`, or 0 if the member is absent or null.
[[nodiscard]] std::int64_t integer_at(const nlohmann::json& object, const char* name, std::int64_t least,
                                      std::int64_t most);

// Members of JSON values from outside, which may have any type. These functions do not throw. Their results
// belong to the value.

// Returns the member, or null if the member is absent or `value` is no object.
[[nodiscard]] const nlohmann::json& member_of(const nlohmann::json& value, std::string_view name);
// Returns the member that the names lead to, such as {"container", "resources", "limits"}.
[[nodiscard]] const nlohmann::json& member_of(const nlohmann::json& value,
                                              std::initializer_list<std::string_view> names);
// Returns member_of() if it is a string, and otherwise an empty text.
[[nodiscard]] std::string_view text_of(const nlohmann::json& value, std::string_view name);
[[nodiscard]] std::string_view text_of(const nlohmann::json& value,
                                       std::initializer_list<std::string_view> names);
// Returns the element of the array `list` whose member `name` is the text `text`. Returns null if there is
// no such element or `list` is no array.
[[nodiscard]] const nlohmann::json& element_of(const nlohmann::json& list, std::string_view name,
                                               std::string_view text);

// Returns the value as JSON text on one line. Replaces each byte that is not UTF-8 with U+FFFD, where dump()
// would throw. For example, a message of an engine may contain bytes that are not UTF-8.
[[nodiscard]] std::string json_text(const nlohmann::json& value);
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& value);
// Like json_text(), but on several lines, indented by two spaces for each level.
[[nodiscard]] std::string indented_json(const nlohmann::json& value);
// Returns the content of a string without quotes, and json_text() of any other value.
template <typename Json>
[[nodiscard]] std::string unquoted_text(const Json& value) {
  return value.is_string() ? value.template get_ref<const std::string&>() : json_text(value);
}

}  // namespace combu
