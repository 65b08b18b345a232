#pragma once
// The end of a run whose containers a person has removed.

#include <string>
#include <vector>

#include "combu/record.hpp"

namespace combu {

// Puts on record that the run's containers are gone, but for those of the trials `kept`. A trial whose last
// attempt failed by itself keeps that end. Throws Error(conflict) if another process goes on changing the
// run.
void record_kill(Record& record, const RunId& run, const std::vector<std::string>& kept = {});

}  // namespace combu
