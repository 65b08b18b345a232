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
  // The exit code that the owner of the run reported at its end; nullopt: it reported none.
  std::optional<int> owner_exit_code;
};
// Shows the progress of the run of this id or, if `run` is empty, of the file's newest run that has an owner,
// until the owner ends. If there is none, or it ends without a report, shows the run's state on record; the
// result is then `failed` if trials are left or were unsuccessful. `stop` only ends the following:
// `interrupted`. Throws Error.
[[nodiscard]] Attached attach(const Invocation& invocation, const std::string& run, Progress& progress,
                              const std::stop_token& stop);

}  // namespace combu
