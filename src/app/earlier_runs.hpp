#pragma once
// Handles the containers of an experiment's earlier runs. While containers of earlier runs are running, combu
// refuses to begin a new run, unless the new run replaces the earlier runs. Before a new run begins, combu
// removes ended containers whose names the new run needs.

#include <optional>
#include <set>
#include <vector>

#include "app/load.hpp"
#include "combu/record.hpp"
#include "combu/session.hpp"

namespace combu {

// Returns an error (conflict) if a container of another run of the experiment is running. Throws Error.
[[nodiscard]] std::optional<Error> earlier_run_lives(Session& session, const Run& run);

// Returns the experiment's other runs that have running containers. Throws Error.
[[nodiscard]] std::set<RunId> runs_to_replace(Session& session, const Run& run);

// Frees the container names that a new run needs. The beginning of the new run must be on record. First
// interrupts the owners of the `replaced` runs. Then collects the outputs and logs of other runs' ended
// containers. Finally removes all containers of the `replaced` runs, and other containers whose names the new
// run needs. Removes nothing and returns the reasons if another run has started during this call, or if
// outputs or logs could not be collected. Throws Error.
[[nodiscard]] std::vector<Error> make_room(Session& session, Record& record, const Loaded& loaded,
                                           const std::set<RunId>& replaced);

}  // namespace combu
