#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "combu/outputs.hpp"

namespace combu::outputs {

// Implements OutputStore::share() for a results folder.
[[nodiscard]] std::vector<std::string> share_in_folder(const std::string& folder, std::optional<Owner> owner,
                                                       std::span<const Sharing> wanted);

}  // namespace combu::outputs
