#pragma once

#include <set>
#include <stop_token>
#include <string>

#include "docker/connections.hpp"

namespace combu::docker {

// Removes duplicates among combu's networks that have one of these names. Runs that begin at the same instant
// can create a network twice (20.10), and then no container can use its name. One network of each name is
// kept: the one in use, or else the one with the smallest id, so that all runs choose the same.
void remove_duplicate_networks(Connections& engine, const std::set<std::string>& names,
                               const std::stop_token& stop);

}  // namespace combu::docker
