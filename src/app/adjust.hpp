#pragma once
// Changes the settings of a run while its owner drives the run.

#include <string>

#include "combu/schedule.hpp"
#include "combu/session.hpp"

namespace combu {

struct Adjusted {
  RunId run;
  Settings settings;  // in force after the change
};
// Changes the settings of the run of this id. If `run` is empty, find_owned_run() chooses the run. Also
// records the limits, so that they hold for a process that resumes the run. Throws Error: not_found if the
// run has no owner.
[[nodiscard]] Adjusted adjust_run(const Invocation& invocation, const std::string& run, const Adjust& adjust);

}  // namespace combu
