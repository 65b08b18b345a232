#pragma once
// Follows a run that a process is at work on.

#include <optional>
#include <stop_token>
#include <string>

#include "app/invocation.hpp"
#include "app/result.hpp"
#include "combu/progress.hpp"
#include "combu/record.hpp"

namespace combu {

struct Attached {
  RunId run;
  // That the process at work ended with; nullopt: it went without a word, there is none, or `stop` is set.
  std::optional<int> exit_code;
};
// Shows the progress of the run of this id, or, if it is empty, of the newest of the file's that a process is
// at work on. Throws Error.
[[nodiscard]] Attached attach(const Invocation& invocation, const std::string& run, Progress& progress,
                              const std::stop_token& stop);

// Shows how a run that no process is at work on stands on record. Failed if trials are left or were
// unsuccessful.
[[nodiscard]] Result show_recorded(const Invocation& invocation, const RunId& run, Progress& progress);

}  // namespace combu
