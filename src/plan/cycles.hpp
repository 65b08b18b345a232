#pragma once

#include <string>
#include <vector>

#include "combu/plan.hpp"

namespace combu::plan {

[[nodiscard]] std::string self_message(const Trial& trial);

// One error for each set of trials that all wait for each other; it names a shortest cycle through the first
// of them.
void report_cycles(const Plan& plan, const Experiment& experiment, std::vector<Error>& errors);

}  // namespace combu::plan
