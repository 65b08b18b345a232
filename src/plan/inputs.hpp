#pragma once
// Checks of the inputs that trials get from other trials.

#include <vector>

#include "combu/plan.hpp"
#include "plan/names.hpp"

namespace combu::plan {

// True if the dependency follows from an input of the trial, not from `depends`.
[[nodiscard]] bool is_of_input(const Trial& trial, const Depend& depend);

// Adds an error for each input that is not among the outputs of its source trial. Skips inputs from unknown
// trials: each input is also a dependency, for which UnknownNames reports the error.
void report_inputs(const Experiment& experiment, const Names& names, std::vector<Error>& errors);

}  // namespace combu::plan
