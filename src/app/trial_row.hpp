#pragma once
// A trial's row: its entry on record, and what only the engine or a fact has.

#include "combu/analysis.hpp"
#include "combu/engine.hpp"
#include "combu/schedule.hpp"

namespace combu {

// Adds when the attempt's container was created, its id and, while the attempt lives, its health. A sighting
// of an earlier attempt adds nothing.
void add_observation(TrialRow& row, const Observation& seen);

// Shows a fact that is not on record.
void show_fact(TrialEntry& entry, const Fact& fact);

}  // namespace combu
