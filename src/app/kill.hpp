#pragma once
// Removes what the engine has of an experiment.

#include "combu/session.hpp"

namespace combu {

struct KillOptions : SelectionOptions {
  bool discard = false;  // also containers whose outputs or logs have not been collected
};
// Interrupts the processes at work, collects logs and outputs, removes all containers and networks, and
// records the ends. Containers whose outputs or logs cannot be collected are stopped and kept.
[[nodiscard]] Result kill(Session& session, const Invocation& invocation, const KillOptions& options);

}  // namespace combu
