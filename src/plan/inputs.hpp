#pragma once
// What trials get of each other.

#include <vector>

#include "combu/plan.hpp"
#include "plan/names.hpp"

namespace combu::plan {

// Whether the file says it by an input of the trial's.
[[nodiscard]] bool is_of_input(const Trial& trial, const Depend& depend);

// Inputs of which the trial that is named leaves nothing. One that is not there is not told here: what it
// gives is depended on, too.
void report_inputs(const Experiment& experiment, const Names& names, std::vector<Error>& errors);

}  // namespace combu::plan
