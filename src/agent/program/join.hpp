#pragma once
#include <string>

namespace combu::agent {

// Passes the standard input and output of this process to the worker with this folder, and waits until the
// worker closes the connection. Returns the exit code of the program.
int join(const std::string& folder);

}  // namespace combu::agent
