#pragma once
#include <string>

#include "attempts.hpp"
#include "folder.hpp"

namespace combu::agent {

// Writes the results that no client has acknowledged to the file `results` in the folder, as frames: Welcome;
// for each attempt that has ended Started, Log with the request 0, Ended; and Listed. Returns false and sets
// errno on failure.
bool write_results(Attempts& attempts, const Folder& folder, const std::string& boot);

}  // namespace combu::agent
