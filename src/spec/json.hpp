#pragma once
// The JSON type that the readers of fields use, and functions that format JSON values for messages.

#include <optional>
#include <string>
#include <string_view>

#include "combu/json.hpp"

namespace combu::spec {

// This JSON type keeps the order of fields, so that errors and `env` have the order of the file.
using Json = nlohmann::ordered_json;

// Returns the type of a value for messages, for example "a string", "an array" or "nothing (null)".
[[nodiscard]] std::string_view kind_of(const Json& value);
// Returns text for messages: short JSON for a scalar, and the type for any other value.
[[nodiscard]] std::string shown(const Json& value);
// Returns strings unchanged, and numbers and booleans as Jsonnet prints them; nullopt for other values.
[[nodiscard]] std::optional<std::string> scalar_text(const Json& value);
// Merges `over` into `base`: merges objects recursively and replaces all other values.
void merge_deep(Json& base, const Json& over);

}  // namespace combu::spec
