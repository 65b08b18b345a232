#pragma once
// Removes runs that are over from the record, with their logs.

#include <cstddef>
#include <string>
#include <vector>

#include "combu/base.hpp"
#include "combu/session.hpp"

namespace combu {

// Removes the runs of these ids. Of one that no process is at work on it asks the engine first whether it has
// ended. Returns how many there were. Throws Error(conflict) if one is not over; then none is removed.
[[nodiscard]] std::size_t remove_runs(const Invocation& invocation, const std::vector<std::string>& ids,
                                      const OpenSession& open_session);
// Removes those that were over before this instant: of the invocation's file, or of all files.
[[nodiscard]] std::size_t remove_runs_before(const Invocation& invocation, Instant before);

}  // namespace combu
