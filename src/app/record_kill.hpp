#pragma once
// Records the end of a run whose containers a user has removed with `kill` or `run --replace`.

#include <string>
#include <vector>

#include "combu/record.hpp"

namespace combu {

// Records that the run's containers are gone, except those of the trials `kept`. If the last attempt of a
// trial failed by itself, the record keeps this failure. Throws Error(conflict) if another process keeps
// changing the run.
void record_kill(Record& record, const RunId& run, const std::vector<std::string>& kept = {});

}  // namespace combu
