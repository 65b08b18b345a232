#pragma once
// Finds out if the engine and this machine have everything that runs need.

#include <vector>

#include "combu/engine.hpp"
#include "combu/session.hpp"

namespace combu {

// Returns the findings about the session's engine, then those about the state folder. Creates the state
// folder if it is missing. Throws Error(cancelled).
[[nodiscard]] std::vector<Finding> examine(Session& session, const Invocation& invocation);

// Returns no_engine if the engine does not answer, failed if there is another fault, and otherwise succeeded.
[[nodiscard]] Result result_of(const std::vector<Finding>& findings);

}  // namespace combu
