#pragma once

#include <functional>
#include <string>

#include "cli/execution.hpp"
#include "cli/invocation.hpp"

namespace combu {

// Goes on with a run that is on record, on the engine it was begun on unless --engine names one. `id`: empty
// for the last one of the invocation's file. `adjust` changes its options. `background`: as for AtWork. Gives
// the exit code. Throws Error.
[[nodiscard]] int resume_run(const Invocation& invocation, const std::string& id,
                             const std::function<void(RunOptions&)>& adjust, const Background* background);

}  // namespace combu
