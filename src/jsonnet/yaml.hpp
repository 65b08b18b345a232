#pragma once
// Recognises YAML, which combu does not read.

#include <string>
#include <string_view>

namespace combu {

// The part of a message that says that a file is YAML, or a Compose file, and how to write it as Jsonnet.
// Empty if neither the file's name nor its text is that of YAML. Pure.
[[nodiscard]] std::string yaml_fault(std::string_view name, std::string_view source);

}  // namespace combu
