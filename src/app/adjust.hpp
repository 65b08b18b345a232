#pragma once
// Changes the settings of a run that a process is at work on.

#include <string>

#include "combu/schedule.hpp"
#include "combu/session.hpp"

namespace combu {

struct Adjusted {
  RunId run;
  Settings settings;  // in force from here on
};
// `run`: its id; empty: the newest of the file's that a process is at work on. The settings hold for whoever
// goes on with the run, too. Throws Error: not_found if no process is at work on it.
[[nodiscard]] Adjusted adjust_run(const Invocation& invocation, const std::string& run, const Adjust& adjust);

}  // namespace combu
