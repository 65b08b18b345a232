#pragma once

#include <set>
#include <stop_token>
#include <string>

#include "docker/connections.hpp"

namespace combu::docker {

// Removes duplicates among combu's networks whose names are in `names`. Runs that begin at the same instant
// can create two networks of the same name (Engine 20.10). If two networks have the same name, no container
// can use that name. For each name, the network that containers use is kept, or else the network with the
// smallest id, so that all runs choose the same one.
void remove_duplicate_networks(Connections& engine, const std::set<std::string>& names,
                               const std::stop_token& stop);

}  // namespace combu::docker
