#pragma once
// Manifests in the format of `sha256sum -c`.

#include <map>
#include <string>
#include <string_view>

namespace combu::outputs {

using Checksums = std::map<std::string, std::string>;  // the SHA-256 digest of each file by its path

// Returns a manifest. Equal files have equal manifests: the lines are in the order of the paths.
[[nodiscard]] std::string manifest_of(const Checksums& sums);
[[nodiscard]] Checksums sums_in_manifest(std::string_view text);

}  // namespace combu::outputs
