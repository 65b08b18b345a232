#pragma once
// Reads the values of secrets on this machine.

#include <vector>

#include "app/load.hpp"
#include "combu/session.hpp"

namespace combu {

// Reads the values of the secrets that the trials of the run have, and sets Run::secrets. Runs the commands
// of sources, one after the other. Returns an error for each value that cannot be read, or that a trial
// cannot get. No error contains a value or the output of a command. Throws Error(cancelled).
[[nodiscard]] std::vector<Error> read_secrets(Session& session, Loaded& loaded);

}  // namespace combu
