#pragma once
// Reads manifests in the format of `sha256sum -c`, which unpack.cpp writes.

#include <map>
#include <string>
#include <string_view>

namespace combu::outputs {

// Returns the SHA-256 digest of each file in the manifest, with the file's path as key.
[[nodiscard]] std::map<std::string, std::string> sums_in_manifest(std::string_view text);

}  // namespace combu::outputs
