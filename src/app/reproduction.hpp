#pragma once
// Texts with which a person can run a recorded run, or trials of it, again.

#include <string>
#include <vector>

#include "combu/record.hpp"

namespace combu {

// Returns the evaluated experiment as Jsonnet. Each image is the recorded one, even if its tag now means
// another image. The id of the recorded run is replaced by the id of the new run. `revision`: as in
// TrialEntry; 0: the last one.
[[nodiscard]] std::string evaluated_again(const RunEntry& entry, int revision);

// Returns shell commands that run these trials again, with the trials that they depend on. All of them must
// have run with one version of the file. The commands enter the folder and, if the folder has changed,
// restore its commit. Lines that begin with # name data that are not on record, and guesses. `engine`: as for
// command_line().
[[nodiscard]] std::string reproduction(const RunEntry& entry, const std::vector<std::string>& trials,
                                       const std::string& engine);

}  // namespace combu
