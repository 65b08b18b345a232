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
  // The exit code that the owner reported at its end; nullopt if the owner reported no exit code.
  std::optional<int> owner_exit_code;
};
// Shows a run's progress until its owner ends. `run` is the run's id; if `run` is empty, find_owned_run()
// chooses the run. If the run has no owner, or the owner ends without reporting an exit code, shows the
// recorded state of the run. In this case, the result is `failed` if any trial is unfinished or was
// unsuccessful. If `stop` requests a stop, returns the result `interrupted`; the run itself continues. Throws
// Error.
[[nodiscard]] Attached attach(const Invocation& invocation, const std::string& run, Progress& progress,
                              const std::stop_token& stop);

}  // namespace combu
