#pragma once
// A run on record goes on: from where it was left, or with trials that are started again.

#include <string>
#include <vector>

#include "app/run_options.hpp"
#include "app/run_owner.hpp"
#include "combu/progress.hpp"
#include "combu/session.hpp"

namespace combu {

// What both use cases work with. They may fork (to evaluate the file): call them before there are threads.
struct RunChange {
  const Invocation& invocation;
  Progress& progress;
  const OpenSession& open_session;
  RunOwner& owner;
};

struct Resumption {
  std::string run = {};       // its id; empty: the last one of the file
  bool edited = false;        // with the file as it is now
  AdjustOptions adjust = {};  // changes the run's options
};
// Goes on with an interrupted run. Of a run that is over it says how it ended.
[[nodiscard]] Result resume_run(const RunChange& change, const Resumption& resumption);

struct RetryOptions {
  std::string run;  // as in Resumption
  bool failed = false;
  bool edited = false;
  bool wait = false;
  std::vector<std::string> trials;  // names or conditions; empty: as `failed`
};
// Starts trials of a run once more, with what they need.
[[nodiscard]] Result retry_trials(const RunChange& change, const RetryOptions& options);

}  // namespace combu
