#pragma once
// Recognises YAML, which combu does not read.

#include <string>
#include <string_view>

namespace combu {

// Of a file that is no Jsonnet: that it is YAML, or a Compose file, and what to write instead, for a message.
// Empty if neither its name nor its text says so. Pure.
[[nodiscard]] std::string yaml_fault(std::string_view name, std::string_view source);

}  // namespace combu
