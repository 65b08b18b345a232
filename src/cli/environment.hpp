#pragma once

#include <optional>
#include <string>

namespace combu {

// A variable of the caller's environment.
[[nodiscard]] std::optional<std::string> environment(const std::string& name);

}  // namespace combu
