#pragma once
// Takes an edited file into a run: for `apply`, and for `retry` and `run --resume` with --edited.

#include "app/changes.hpp"
#include "app/load.hpp"
#include "app/run_options.hpp"
#include "app/run_owner.hpp"
#include "combu/progress.hpp"
#include "combu/record.hpp"
#include "combu/session.hpp"

namespace combu {

// The run has the text of `file` from here on, and what `wishes` names is started again. A process that is at
// work on the run goes on with it; else this one does, with the run's options as `adjust` changes them.
// Throws Error.
[[nodiscard]] Result apply_file(Session& session, Record& record, const RunEntry& entry, const Loaded& file,
                                const Wishes& wishes, const AdjustOptions& adjust, RunOwner& owner);

// The same for the run of this id, or, if it is empty, the newest of the file's that a process is at work on.
// The file is the invocation's. Forks: call it before there are threads.
[[nodiscard]] Result apply(const Invocation& invocation, const std::string& run, const Wishes& wishes,
                           Progress& progress, const OpenSession& open_session, RunOwner& owner);

}  // namespace combu
