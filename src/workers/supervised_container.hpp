#pragma once
// Containers whose first process is the agent, which runs the program of the trial (`agent supervise`).

#include <memory>

#include "combu/engine.hpp"
#include "combu/spec.hpp"

namespace combu::workers {

// The agent moves all files of the trial, or gives the program only its secrets.
enum class Supervision { files, secrets };

// Returns a trial whose container runs the agent, which runs the program of `trial`. `image`: the program of
// the image. `experiment`: the trial's.
[[nodiscard]] Trial supervised_container(const Trial& trial, Supervision use, const ImageProgram& image,
                                         std::shared_ptr<const ProvidedProgram> program,
                                         const Experiment& experiment);

}  // namespace combu::workers
