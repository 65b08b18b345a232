#pragma once
// The files that the agent writes outside of scratch folders, before a program begins.

#include <map>
#include <string>
#include <vector>

#include "combu/spec.hpp"

namespace combu::workers {

// True if the trial's program must not begin before the agent has received files for it.
[[nodiscard]] bool awaits_files(const Trial& trial);

// Returns the folder that contains the file at an absolute path.
[[nodiscard]] std::string parent_of(const std::string& path);

// Returns the folders into which the agent writes the inputs and the file of params. An input whose path is
// not known yet counts as a folder.
[[nodiscard]] std::vector<std::string> written_folders(const Trial& trial);

// Throws Error(refused) if an input is missing or cannot be opened: the agent gets the inputs later.
void check_inputs(const Trial& trial);

// Returns a map from the paths of the files that combu itself writes into the container to their contents.
[[nodiscard]] std::map<std::string, std::string> provided_files(const Trial& trial);

}  // namespace combu::workers
