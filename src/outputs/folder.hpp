#pragma once

#include <memory>
#include <string>

#include "combu/outputs.hpp"

namespace combu::outputs {

// Returns a writer like that of open_folder(), but for files that can be downloaded again. The files in
// FOLDER/PLACE need not survive a crash of the machine.
[[nodiscard]] std::unique_ptr<OutputWriter> open_passing(const std::string& folder, const std::string& place);

}  // namespace combu::outputs
