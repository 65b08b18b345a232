#pragma once
// Starts a new run of a file.

#include <string>
#include <vector>

#include "app/run_options.hpp"
#include "app/run_owner.hpp"
#include "combu/progress.hpp"
#include "combu/session.hpp"

namespace combu {

struct NewRun {
  RunOptions options;
  bool replace = false;           // remove running containers of earlier runs
  std::string id;                 // empty: a random id
  std::vector<std::string> only;  // names or conditions; empty: all trials
};
// Evaluates the invocation's file, and starts and drives a new run of the file. Forks a process, so call this
// function before starting threads.
[[nodiscard]] Result start_run(const Invocation& invocation, const NewRun& wanted, Progress& progress,
                               const OpenSession& open_session, RunOwner& owner);

}  // namespace combu
