#pragma once
// A command that leaves what it has to do to a process of its own in the background.

#include <functional>

#include "cli/command_line.hpp"
#include "combu/base.hpp"

namespace combu {

// The way there, for the process that goes it.
class Background {
 public:
  // `file`: the descriptor of a pipe to the process that waits in the foreground.
  explicit Background(int file) : file_(file) {}

  // From here on the foreground's process is not needed: it prints the run's id and ends with 0. What this
  // one prints goes to `log`, a descriptor.
  void enter(const RunId& run, int log) const;

 private:
  int file_;
};

// Calls `body` in a process that the terminal does not end. Returns twice: there with what `body` gives; here
// with 0 when it has entered the background, else, when it has ended, with its exit code. Until then both
// share the standard files, and signals are passed on. Forks: call it before there are threads.
[[nodiscard]] int in_background(const std::function<int(const Background*)>& body);

// -d.
void add_detach_option(CliCommand command, bool& detach);

}  // namespace combu
