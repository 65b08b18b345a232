#pragma once

#include <string>
#include <vector>

#include "combu/plan.hpp"

namespace combu::plan {

[[nodiscard]] std::string self_message(const Trial& trial);

// Adds one error for each strongly connected component that has several trials. The message names a shortest
// cycle through the component's first trial.
void report_cycles(const Plan& plan, const Experiment& experiment, std::vector<Error>& errors);

}  // namespace combu::plan
