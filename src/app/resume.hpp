#pragma once
// Continues a recorded run: resumes the run, or starts some of its trials again.

#include <string>
#include <vector>

#include "app/run_options.hpp"
#include "app/run_owner.hpp"
#include "combu/progress.hpp"
#include "combu/session.hpp"

namespace combu {

// The arguments of both use cases. Both may fork (to evaluate the file): call them before starting threads.
struct RunChange {
  const Invocation& invocation;
  Progress& progress;
  const OpenSession& open_session;
  RunOwner& owner;
};

struct Resumption {
  std::string run = {};       // the run's id; empty: the last run of the file
  bool edited = false;        // use the file as it is on disk
  AdjustOptions adjust = {};  // changes the run's options
};
// Resumes an interrupted run. If the run is over, shows how it ended.
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
