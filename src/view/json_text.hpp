#pragma once
// How this room writes JSON.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "combu/base.hpp"

namespace combu {

// On one line. Bytes that are no UTF-8 (an engine's words may hold any) are replaced, not thrown at.
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& value);

// A text as JSON has it, quoted.
[[nodiscard]] std::string json_string(std::string_view text);

}  // namespace combu
