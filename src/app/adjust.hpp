#pragma once
// Changes the settings of a run while its owner drives the run.

#include <string>

#include "combu/schedule.hpp"
#include "combu/session.hpp"

namespace combu {

struct Adjusted {
  RunId run;
  Settings settings;  // the run's settings after the change
};
// Changes the settings of the run with the id `run`. If `run` is empty, find_owned_run() chooses the run.
// Also records the new limits of parallel trials and of starts in flight, so that a process that resumes the
// run uses them. Throws Error, with the kind not_found if the run has no owner.
[[nodiscard]] Adjusted adjust_run(const Invocation& invocation, const std::string& run, const Adjust& adjust);

}  // namespace combu
