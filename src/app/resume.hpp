#pragma once
// Continues a recorded run: resumes the run, or starts some of its trials again.

#include <string>
#include <vector>

#include "app/run_options.hpp"
#include "app/run_owner.hpp"
#include "combu/progress.hpp"
#include "combu/session.hpp"

namespace combu {

// The common arguments of resume_run() and retry_trials(). Both functions may fork a process to evaluate the
// file, so call them before starting threads.
struct RunChange {
  const Invocation& invocation;
  Progress& progress;
  const OpenSession& open_session;
  RunOwner& owner;
};

struct Resumption {
  std::string run = {};       // the run's id; empty: the last run of the file
  bool edited = false;        // true: use the file on disk instead of the recorded text
  AdjustOptions adjust = {};  // function that changes the run's options
};
// Resumes an interrupted run. If the run has already ended, only shows how the run ended.
[[nodiscard]] Result resume_run(const RunChange& change, const Resumption& resumption);

struct RetryOptions {
  std::string run;  // as in Resumption
  bool failed = false;
  bool edited = false;
  bool wait = false;
  std::vector<std::string> trials;  // names or conditions; empty: as if `failed` were true
};
// Starts trials of a run again, with the trials that they need.
[[nodiscard]] Result retry_trials(const RunChange& change, const RetryOptions& options);

}  // namespace combu
