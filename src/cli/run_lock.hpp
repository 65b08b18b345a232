#pragma once
// One process that starts an experiment's trials on an engine at a time (two would meet in the middle of
// their starts), and one that is at work on a run.

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "combu/engine.hpp"
#include "combu/spec.hpp"

namespace combu {

enum class LockScope { starts, run };

// Held from its making to its end, also when that is a SIGKILL. It is one user's on one machine: what others
// do is met at the containers' names.
class RunLock {
 public:
  // `engine`: its address. Waits a moment for one that is about to end. Throws Error: conflict when another
  // process holds it, refused when there is no place for it, cancelled when `stop` is set.
  RunLock(LockScope scope, const Run& run, const std::string& engine, const Caller& caller,
          const std::stop_token& stop);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  Descriptor file_;
};

// The process that is at work on a run; nullopt when none on this machine is.
[[nodiscard]] std::optional<int> process_at_work(const RunId& run, const Caller& caller);

// Where it listens to others.
[[nodiscard]] std::string channel_path(const RunId& run, const Caller& caller);

// Asks the processes that hold a lock of a run that `selector` selects to start nothing more, as Ctrl-C
// does, and waits until they have let go. They name `by`, the command that asks ("combu kill"). Gives those
// that were asked. Throws Error: conflict when one does not let go, refused when it may not be asked,
// cancelled.
struct Interrupted {
  int process = 0;
  std::string run;
};
[[nodiscard]] std::string interrupted_line(const Interrupted& interrupted);
[[nodiscard]] std::vector<Interrupted> interrupt_runs(const Selector& selector, const std::string& by,
                                                      const std::string& engine, const Caller& caller,
                                                      const std::stop_token& stop);

// Where a run that was left to the background tells its progress.
[[nodiscard]] std::string log_path(const RunId& run, const Caller& caller);

// Where combu keeps what outlives it: $COMBU_HOME, else $XDG_STATE_HOME/combu, else ~/.local/state/combu.
[[nodiscard]] std::string state_folder(const Caller& caller);

}  // namespace combu
