#pragma once

#include <map>
#include <string>

#include "combu/base.hpp"

namespace combu {

// Attempts whose outputs or logs could not be collected, each with the reason. Their containers hold the only
// copy.
using Uncollected = std::map<Key, std::string>;

}  // namespace combu
