#pragma once

#include <map>
#include <string>

#include "combu/base.hpp"

namespace combu {

// Attempts whose outputs or logs could not be collected, each with the reason. The containers of these
// attempts hold the only copy of the outputs and logs.
using Uncollected = std::map<Key, std::string>;

}  // namespace combu
