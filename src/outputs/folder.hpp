#pragma once

#include <memory>
#include <string>

#include "combu/outputs.hpp"

namespace combu::outputs {

// As one of open_folder(), but for what can be had again: FOLDER/PLACE need not survive a crash of the
// machine.
[[nodiscard]] std::unique_ptr<OutputWriter> open_passing(const std::string& folder, const std::string& place);

}  // namespace combu::outputs
