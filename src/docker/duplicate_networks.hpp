#pragma once

#include <set>
#include <stop_token>
#include <string>

#include "docker/connections.hpp"

namespace combu::docker {

// Runs that begin at the same instant can make a network twice (20.10), and then no container can be given
// its name. Of those of combu's networks that have one of these names all but one are removed: the one that
// is in use stays, else the first by its id, so that all runs which do this choose the same.
void remove_duplicate_networks(Connections& engine, const std::set<std::string>& names,
                               const std::stop_token& stop);

}  // namespace combu::docker
