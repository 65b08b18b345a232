#pragma once
// Detects YAML files, which combu does not read.

#include <string>
#include <string_view>

namespace combu {

// Returns a message which explains that the file is YAML or a Compose file, and how to write the file as
// Jsonnet. Returns an empty string if neither the name nor the text is that of a YAML file. Pure.
[[nodiscard]] std::string yaml_fault(std::string_view name, std::string_view source);

}  // namespace combu
