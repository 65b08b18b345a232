#pragma once

#include <string>
#include <string_view>

namespace combu {

// A text as JSON has it, quoted.
[[nodiscard]] std::string json_string(std::string_view text);

}  // namespace combu
