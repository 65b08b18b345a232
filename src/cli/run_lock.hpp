#pragma once
// One `run` of an experiment on an engine at a time: two would meet in the middle of their starts.

#include <stop_token>
#include <string>

#include "combu/spec.hpp"

namespace combu {

// Held from its making to its end, also when that is a SIGKILL. It is one user's on one machine: what others
// do is met at the containers' names.
class RunLock {
 public:
  // `engine`: its address. Waits a moment for one that is about to end. Throws Error: conflict when another
  // process holds it, refused when there is no place for it, cancelled when `stop` is set.
  RunLock(const Experiment& experiment, const RunId& run, const std::string& engine, const Caller& caller,
          const std::stop_token& stop);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int file_ = -1;
};

// Where combu keeps what outlives it: $COMBU_HOME, else $XDG_STATE_HOME/combu, else ~/.local/state/combu.
[[nodiscard]] std::string state_folder(const Caller& caller);

}  // namespace combu
