#pragma once
// Detects YAML files, which combu does not read.

#include <string>
#include <string_view>

namespace combu {

// Returns the part of a message that says that a file is YAML or a Compose file, and how to write it as
// Jsonnet. Returns an empty string if neither the name nor the text is that of YAML. Pure.
[[nodiscard]] std::string yaml_fault(std::string_view name, std::string_view source);

}  // namespace combu
