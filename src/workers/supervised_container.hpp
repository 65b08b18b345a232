#pragma once
// Containers whose first process is the agent, which runs the program of the trial (`agent supervise`).

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "combu/engine.hpp"
#include "combu/spec.hpp"

namespace combu::workers {

// True if the trial's program must not begin before the agent has received files for it.
[[nodiscard]] bool awaits_files(const Trial& trial);

// The agent moves all files of the trial, or gives the program only its secrets.
enum class Supervision { files, secrets };

// Returns a trial whose container runs the agent, which runs the program of `trial`. `image`: the program of
// the image. `hold`: see Experiment::hold.
[[nodiscard]] Trial supervised_container(const Trial& trial, Supervision use, const ImageProgram& image,
                                         std::shared_ptr<const ProvidedProgram> program, Seconds hold);

// Returns the folders into which the agent writes the inputs and the file of params. An input whose path is
// not known yet counts as a folder.
[[nodiscard]] std::vector<std::string> written_folders(const Trial& trial);

// Throws Error(refused) if an input is missing or cannot be opened: the agent gets the inputs later.
void check_inputs(const Trial& trial);

// Returns a map from the paths of the files that combu itself writes into the container to their contents.
[[nodiscard]] std::map<std::string, std::string> provided_files(const Trial& trial);

}  // namespace combu::workers
