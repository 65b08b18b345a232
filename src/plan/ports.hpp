#pragma once

#include <vector>

#include "combu/plan.hpp"

namespace combu::plan {

// One error for each port of the host that several trials, or one trial twice, want: linear, whatever the
// addresses.
void report_shared_ports(const Experiment& experiment, std::vector<Error>& errors);

}  // namespace combu::plan
