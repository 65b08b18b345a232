#pragma once
// A command that leaves what it has to do to a process of its own in the background.

#include <functional>

#include "app/run_owner.hpp"
#include "cli/command_line.hpp"

namespace combu {

// Calls `body` in a process that the terminal does not end. Returns twice: there with what `body` gives; here
// with 0 when it has entered the background, else, when it has ended, with its exit code. Until then both
// share the standard files, and signals are passed on. Forks: call it before there are threads.
[[nodiscard]] int in_background(const std::function<int(const Background*)>& body);

// -d.
void add_detach_option(CliCommand command, bool& detach);

}  // namespace combu
