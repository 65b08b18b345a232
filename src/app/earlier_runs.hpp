#pragma once
// Containers of an experiment's earlier runs: a new run refuses to begin beside those that still run, or
// replaces them, and removes the ended ones whose names it needs.

#include <optional>
#include <set>
#include <vector>

#include "app/load.hpp"
#include "combu/record.hpp"
#include "combu/session.hpp"

namespace combu {

// conflict, if a container of another run of the experiment still runs. Throws Error.
[[nodiscard]] std::optional<Error> earlier_run_lives(Session& session, const Run& run);

// The experiment's other runs that have running containers. Throws Error.
[[nodiscard]] std::set<RunId> runs_to_replace(Session& session, const Run& run);

// Makes room for a run whose beginning is on record: interrupts the processes that drive the `replaced` runs,
// collects what ended containers of other runs hold, and removes the containers of the `replaced` runs and
// those whose names are needed again. Removes none and returns the reasons if another run has started
// meanwhile, or if something could not be collected. Throws Error.
[[nodiscard]] std::vector<Error> make_room(Session& session, Record& record, const Loaded& loaded,
                                           const std::set<RunId>& replaced);

}  // namespace combu
