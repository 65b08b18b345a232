#pragma once
// Members of JSON values from outside, which may have any type: objects of the API, plugins' answers and the
// `kubernetes` section. These functions do not throw. Their results belong to the value.

#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace combu::kubernetes {

// Returns the member, or null if the member is absent or `value` is no object.
[[nodiscard]] const nlohmann::json& member_of(const nlohmann::json& value, std::string_view name);
// Returns the member that the names lead to, such as {"container", "resources", "limits"}.
[[nodiscard]] const nlohmann::json& member_of(const nlohmann::json& value,
                                              std::initializer_list<std::string_view> names);

// Returns member_of() if it is a string, and otherwise an empty text.
[[nodiscard]] std::string_view text_of(const nlohmann::json& value, std::string_view name);
[[nodiscard]] std::string_view text_of(const nlohmann::json& value,
                                       std::initializer_list<std::string_view> names);

// Returns the element of the array `list` whose member `name` is the text `text`; null if there is none.
[[nodiscard]] const nlohmann::json& element_of(const nlohmann::json& list, std::string_view name,
                                               std::string_view text);

}  // namespace combu::kubernetes
