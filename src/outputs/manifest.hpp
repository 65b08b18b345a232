#pragma once
// What sha256sum -c reads: see unpack.cpp, which writes it.

#include <map>
#include <string>
#include <string_view>

namespace combu::outputs {

// The sha256 of each file in it, by its path.
[[nodiscard]] std::map<std::string, std::string> sums_in_manifest(std::string_view text);

}  // namespace combu::outputs
