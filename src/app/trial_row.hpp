#pragma once
// A trial as the record has it, corrected by what the engine says now.

#include "combu/analysis.hpp"
#include "combu/engine.hpp"

namespace combu {

// `attended`: a process is at work on the run, and records what it sees a moment later; then only the health
// is taken.
void add_sighting(TrialRow& row, const Sighting& seen, bool attended);

// The engine does not have the trial's container any more, or never got it, and nobody is at work on the run.
void mark_missing(TrialEntry& entry);

}  // namespace combu
