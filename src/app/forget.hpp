#pragma once
// Removes runs that are over from the record, with their logs.

#include <cstddef>
#include <string>
#include <vector>

#include "combu/base.hpp"
#include "combu/session.hpp"

namespace combu {

// Removes the runs of these ids and returns their number. If a run is not over on record and has no owner,
// asks the engine first whether the run has ended. Throws Error(conflict) and removes nothing if any run is
// not over.
[[nodiscard]] std::size_t remove_runs(const Invocation& invocation, const std::vector<std::string>& ids,
                                      const OpenSession& open_session);
// Removes the runs of the invocation's file that ended before this instant; without a file, the runs of all
// files. Returns their number.
[[nodiscard]] std::size_t remove_runs_before(const Invocation& invocation, Instant before);

}  // namespace combu
