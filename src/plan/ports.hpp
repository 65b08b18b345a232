#pragma once

#include <vector>

#include "combu/plan.hpp"

namespace combu::plan {

// Adds one error for each host port that several trials publish, or that one trial publishes twice. Takes
// time linear in the number of ports, whatever their addresses are.
void report_shared_ports(const Experiment& experiment, std::vector<Error>& errors);

}  // namespace combu::plan
