#pragma once
// Containers of an experiment's earlier runs. A new run refuses to begin while such containers run, or
// replaces them. The new run removes ended containers whose names it needs.

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

// Makes room for a run that is on record as begun:
// - interrupts the owners of the `replaced` runs
// - collects the outputs and logs of other runs' ended containers
// - removes all containers of the `replaced` runs, and other containers whose names the run needs.
// Removes nothing and returns the reasons if another run has started meanwhile, or if outputs or logs could
// not be collected. Throws Error.
[[nodiscard]] std::vector<Error> make_room(Session& session, Record& record, const Loaded& loaded,
                                           const std::set<RunId>& replaced);

}  // namespace combu
