#pragma once
// What the readers of single fields share of JSON: the value type, and how a value reads in a message.

#include <optional>
#include <string>
#include <string_view>

#include "combu/json.hpp"

namespace combu::spec {

// Ordered, so that errors and env come in the file's order.
using Json = nlohmann::ordered_json;

// "a string", "an array", "nothing (null)", for messages.
[[nodiscard]] std::string_view kind_of(const Json& value);
// The value as a message shows it: short JSON for scalars, the kind for the rest.
[[nodiscard]] std::string shown(const Json& value);
// Strings as they are, numbers and booleans as the text that Jsonnet gives them; nullopt for all others.
[[nodiscard]] std::optional<std::string> scalar_text(const Json& value);
// `base` with `over` laid on it: objects are merged at every depth, all else is replaced.
void merge_deep(Json& base, const Json& over);

}  // namespace combu::spec
