#pragma once
// Applies an edited file to a run: for `apply`, and for `retry` and `run --resume` with --edited.

#include "app/changes.hpp"
#include "app/load.hpp"
#include "app/run_options.hpp"
#include "app/run_owner.hpp"
#include "combu/progress.hpp"
#include "combu/record.hpp"
#include "combu/session.hpp"

namespace combu {

// Records the text of `file` as the newest text of the run, and restarts the trials that `restart` names. If
// the run has an owner, the owner continues the run. Otherwise this process continues the run, with the run's
// options, changed by `adjust`. Throws Error.
[[nodiscard]] Result apply_file(Session& session, Record& record, const RunEntry& entry, const Loaded& file,
                                const RestartRequest& restart, const AdjustOptions& adjust, RunOwner& owner);

// Applies the invocation's file to the run with the id `run`. If `run` is empty, find_owned_run() chooses the
// run. Forks a process, so call this function before starting threads.
[[nodiscard]] Result apply(const Invocation& invocation, const std::string& run,
                           const RestartRequest& restart, Progress& progress, const OpenSession& open_session,
                           RunOwner& owner);

}  // namespace combu
