#pragma once
// Adds data that the record lacks to a trial's row: data from the engine and from unrecorded facts.

#include "combu/analysis.hpp"
#include "combu/engine.hpp"
#include "combu/schedule.hpp"

namespace combu {

// Adds the id and the creation time of the attempt's container and, while the attempt is alive, its health.
// An observation of an earlier attempt adds nothing.
void add_observation(TrialRow& row, const Observation& seen);

// Applies to `entry` a fact that the record lacks.
void show_fact(TrialEntry& entry, const Fact& fact);

}  // namespace combu
