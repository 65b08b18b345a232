#pragma once
// One `run` of an experiment on an engine at a time: two would meet in the middle of their starts.

#include <optional>
#include <stop_token>
#include <string>

#include "combu/spec.hpp"

namespace combu {

// A file's descriptor, closed at the end; -1: none.
class OpenFile {
 public:
  explicit OpenFile(int number) : number_(number) {}
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

// Held from its making to its end, also when that is a SIGKILL. It is one user's on one machine: what others
// do is met at the containers' names.
class RunLock {
 public:
  // `engine`: its address. Waits a moment for one that is about to end. Throws Error: conflict when another
  // process holds it, refused when there is no place for it, cancelled when `stop` is set.
  RunLock(const std::string& experiment, const RunId& run, const std::string& engine, const Caller& caller,
          const std::stop_token& stop);

 private:
  OpenFile file_;
};

// Asks the process that holds the lock (of this run of it, when one is named) to start nothing more, as
// Ctrl-C does, and waits until it has let go. Gives what was asked, nullopt when nobody holds it. Throws
// Error: conflict when it does not let go, refused when it may not be asked, cancelled.
struct Interrupted {
  int process = 0;
  std::string run;
};
[[nodiscard]] std::optional<Interrupted> interrupt_run(const std::string& experiment,
                                                       const std::optional<RunId>& run,
                                                       const std::string& engine, const Caller& caller,
                                                       const std::stop_token& stop);

// Where combu keeps what outlives it: $COMBU_HOME, else $XDG_STATE_HOME/combu, else ~/.local/state/combu.
[[nodiscard]] std::string state_folder(const Caller& caller);

}  // namespace combu
