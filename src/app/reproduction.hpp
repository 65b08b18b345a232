#pragma once
// Makes texts with which a user can repeat a recorded run, or single trials of the run.

#include <string>
#include <vector>

#include "combu/record.hpp"

namespace combu {

// Returns the evaluated experiment as Jsonnet. Each image is the recorded image, even if its tag now refers
// to another image. The id of the recorded run is replaced by the id of the new run. `revision`: the version
// of the file, as in TrialEntry; 0: the newest version.
[[nodiscard]] std::string evaluated_again(const RunEntry& entry, int revision);

// Returns shell commands that run `trials` again, with the trials on which they depend. All of `trials` must
// have run with the same version of the file. The commands change to the run's folder. If the folder's commit
// or diff differs from the recorded one, the commands also check out the recorded commit. Comment lines (#)
// name data that are not on record, and assumptions that may be wrong. `engine`: as for command_line().
[[nodiscard]] std::string reproduction(const RunEntry& entry, const std::vector<std::string>& trials,
                                       const std::string& engine);

}  // namespace combu
