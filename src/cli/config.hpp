#pragma once
// What a person has to say of engines that these do not tell themselves: $XDG_CONFIG_HOME/combu/config.json.

#include <string>
#include <vector>

#include "combu/engine.hpp"

namespace combu {

// The GPUs of the engine at this address, as `engines.ADDRESS.gpus` names them; none without a file. Throws
// Error(invalid) with the file's path as subject.
[[nodiscard]] std::vector<Gpu> configured_gpus(const std::string& address);

}  // namespace combu
