#pragma once
// Removes an experiment's containers and networks from the engine.

#include "combu/session.hpp"

namespace combu {

struct KillOptions : SelectionOptions {
  bool discard = false;  // also remove containers whose outputs or logs have not been collected
};
// Interrupts the owners of the runs, collects logs and outputs, removes all containers and networks, and
// records how the trials ended. If outputs or logs of a container cannot be collected, stops the container
// and keeps it.
[[nodiscard]] Result kill(Session& session, const Invocation& invocation, const KillOptions& options);

}  // namespace combu
