#pragma once
// How what is on record is run once more.

#include <string>
#include <vector>

#include "combu/record.hpp"

namespace combu {

// The experiment as it was evaluated, as Jsonnet: each image is the one that it was, wherever its tag leads
// by now, and the run's id is the one of whoever runs it. `revision`: as in TrialEntry; 0: the last one.
[[nodiscard]] std::string evaluated_again(const RunEntry& entry, int revision);

// What a person pastes into a shell: the folder and its commit, where it is not as it was, then these trials
// of the run, which ran with one version of the file, and what they depend on. Lines that begin with # say
// what is not on record, or is a guess. `engine`: as for command_line().
[[nodiscard]] std::string reproduction(const RunEntry& entry, const std::vector<std::string>& trials,
                                       const std::string& engine);

}  // namespace combu
