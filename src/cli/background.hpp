#pragma once
// Runs a command in a process in the background.

#include <functional>

#include "app/run_owner.hpp"
#include "cli/command_line.hpp"

namespace combu {

// Forks, and calls `body` in the child process, which the terminal does not end. Returns twice: in the child
// with the result of `body`; in the parent with 0 once the child has entered the background, or with the
// child's exit code if it ended before. Until then both share the standard files, and the parent passes
// signals on. Must be called before there are threads.
[[nodiscard]] int in_background(const std::function<int(const Background*)>& body);

// Adds -d.
void add_detach_option(CliCommand command, bool& detach);

}  // namespace combu
