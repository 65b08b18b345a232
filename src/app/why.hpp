#pragma once
// Explains why a trial is in its state, and which trials of a run failed and why. If the run has no owner,
// reconciles the run first (app/reconcile.hpp).

#include <string>

#include "combu/session.hpp"

namespace combu {

struct WhyOptions {
  std::string run;    // the run's id; empty: the last run of the file
  std::string trial;  // for why_trial()
};

// Returns one line: the trial's name, its state, and why the trial waits or how it ended. If the run has
// unfinished trials and no owner, the line also says how to resume the run. Opens a session with the engine
// only for data that the record lacks. If the engine does not answer, the line lacks these data. Throws
// Error(not_found) if the run or the trial is not on record.
[[nodiscard]] std::string why_trial(const Invocation& invocation, const WhyOptions& options,
                                    const OpenSession& open_session);

// Returns a line with the number of trials in each state, and a line for each group of equal failures. Throws
// Error(not_found) if the run is not on record.
[[nodiscard]] std::string why_run(const Invocation& invocation, const WhyOptions& options,
                                  const OpenSession& open_session);

}  // namespace combu
