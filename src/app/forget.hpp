#pragma once
// Removes ended runs from the record, and their logs from the state folder.

#include <cstddef>
#include <string>
#include <vector>

#include "combu/base.hpp"
#include "combu/session.hpp"

namespace combu {

// Removes the runs with these ids and returns the number of removed runs. If a run has not ended according to
// the record and has no owner, first reconciles the run with the engine. If any run has not ended, throws
// Error(conflict) and removes nothing.
[[nodiscard]] std::size_t remove_runs(const Invocation& invocation, const std::vector<std::string>& ids,
                                      const OpenSession& open_session);
// Removes the runs of the invocation's file that ended before the instant `before`. Without a file, removes
// the runs of all files that ended before `before`. Returns the number of removed runs.
[[nodiscard]] std::size_t remove_runs_before(const Invocation& invocation, Instant before);

}  // namespace combu
