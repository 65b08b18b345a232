#pragma once
// What sha256sum -c reads: see unpack.cpp, which writes it.

#include <set>
#include <string>
#include <string_view>

namespace combu::outputs {

// The paths of all files in it.
[[nodiscard]] std::set<std::string> names_in_manifest(std::string_view text);

}  // namespace combu::outputs
