#pragma once
// Says why a trial is in its state, and which trials of a run failed and why. Reconciles: if no process is at
// work on the run, what has ended is put on record first (app/reconcile.hpp).

#include <string>

#include "combu/session.hpp"

namespace combu {

struct WhyOptions {
  std::string run;    // its id; empty: the last one of the file
  std::string trial;  // for why_trial()
};

// Returns one line: the trial's name, its state, and why it waits or how it ended; also how to go on with the
// run if trials are left and nobody is at work on it. Asks the engine, in sessions, only what the record
// cannot say; an engine that does not answer leaves that part out. Throws Error: not_found for a run or a
// trial that is not on record.
[[nodiscard]] std::string why_trial(const Invocation& invocation, const WhyOptions& options,
                                    const OpenSession& open_session);

// Returns a line with the run's trials by state, and a line for each group of equal failures. Throws Error:
// not_found for a run that is not on record.
[[nodiscard]] std::string why_run(const Invocation& invocation, const WhyOptions& options,
                                  const OpenSession& open_session);

}  // namespace combu
