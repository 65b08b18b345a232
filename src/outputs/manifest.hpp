#pragma once
// Reads manifests in the format of `sha256sum -c`. unpack.cpp writes them.

#include <map>
#include <string>
#include <string_view>

namespace combu::outputs {

// Returns the sha256 of each file in the manifest, by path.
[[nodiscard]] std::map<std::string, std::string> sums_in_manifest(std::string_view text);

}  // namespace combu::outputs
