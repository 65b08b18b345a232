#pragma once
// Runs a command in a process in the background.

#include <functional>

#include "app/run_owner.hpp"
#include "cli/command_line.hpp"

namespace combu {

// Forks, and calls `body` in the child process, which continues if the terminal is closed. Returns twice. In
// the child, returns the result of `body`. In the parent, returns 0 once the child has entered the
// background, or the child's exit code if the child ended before that. Until the child has entered the
// background, both processes share the standard files, and the parent passes signals on to the child. Must be
// called while the program has only one thread.
[[nodiscard]] int in_background(const std::function<int(const Background*)>& body);

// Adds -d.
void add_detach_option(CliCommand command, bool& detach);

}  // namespace combu
