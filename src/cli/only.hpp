#pragma once

#include <string>
#include <vector>

#include "combu/plan.hpp"

namespace combu {

// The part of an experiment that `run --only` means: trials whose name matches one of the patterns
// (`solver-a-*`) or whose params one of the conditions (`lr<0.01 && mode=fast`), with all that they depend
// on, in the file's order. Throws Error(invalid) for a pattern that none matches.
[[nodiscard]] Experiment only(Experiment experiment, const Plan& plan,
                              const std::vector<std::string>& wanted);

}  // namespace combu
