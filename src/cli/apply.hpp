#pragma once
// Takes an edited file into a run: for `apply`, and for `retry` and `run --resume` with --edited.

#include "cli/at_work.hpp"
#include "cli/changes.hpp"
#include "cli/execution.hpp"
#include "cli/load.hpp"
#include "cli/session.hpp"
#include "combu/record.hpp"

namespace combu {

// The run has the text of `file` from here on, and what `wishes` names is started again. A process that is at
// work on the run goes on with it; else this one does, with the run's options as `adjust` changes them. Gives
// the exit code. Throws Error.
[[nodiscard]] int apply_file(Session& session, Record& record, const RunEntry& entry, const Loaded& file,
                             const Wishes& wishes, const AdjustOptions& adjust, AtWork& work);

}  // namespace combu
