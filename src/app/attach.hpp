#pragma once
// Follows a run that another process drives.

#include <optional>
#include <stop_token>
#include <string>

#include "combu/progress.hpp"
#include "combu/record.hpp"
#include "combu/session.hpp"

namespace combu {

struct Attached {
  Result result = Result::succeeded;
  // The exit code that the owner reported when it ended; nullopt if the owner reported none.
  std::optional<int> owner_exit_code;
};
// Shows a run's progress until its owner ends. `run`: the run's id; empty: find_owned_run() chooses the run.
// If the run has no owner, or the owner ends without a report, shows the recorded state. The result is then
// `failed` if trials are left or were unsuccessful. If `stop` is set, only the display ends, with the result
// `interrupted`. Throws Error.
[[nodiscard]] Attached attach(const Invocation& invocation, const std::string& run, Progress& progress,
                              const std::stop_token& stop);

}  // namespace combu
