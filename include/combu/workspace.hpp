#pragma once
// What surrounds a run on this machine: the caller and the environment, the state folder and its locks, the
// configuration, and the git revision of a folder.

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "combu/base.hpp"
#include "combu/engine.hpp"
#include "combu/spec.hpp"
#include "combu/system.hpp"

namespace combu {

// A variable of the caller's environment.
[[nodiscard]] std::optional<std::string> environment(const std::string& name);

// ---- The experiment's file and its caller

// The absolute path that an experiment is known by, of the -f that was given; the file need not exist.
// "FOLDER/-" for standard input.
[[nodiscard]] std::string identity_of(const std::string& file);

[[nodiscard]] Caller caller_of(const std::string& file);

// For the record: the caller's name (its number when it has none), and this machine's.
[[nodiscard]] std::string user_name();
[[nodiscard]] std::string machine_name();

// ---- The state folder

// Where combu keeps what outlives it: $COMBU_HOME, else $XDG_STATE_HOME/combu, else ~/.local/state/combu.
[[nodiscard]] std::string state_folder(const Caller& caller);

// ---- Locks: one process that starts an experiment's trials on an engine at a time (two would meet in the
// middle of their starts), and one that is at work on a run.

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
[[nodiscard]] std::optional<int> owner_pid(const RunId& run, const Caller& caller);

// Where it listens to others.
[[nodiscard]] std::string channel_path(const RunId& run, const Caller& caller);

// Asks the processes that hold a lock of a run that `selector` selects to start nothing more, as Ctrl-C
// does, and waits until they have released it. `announce` is called before a process gets its signal. Returns
// the processes that were asked. Throws Error: conflict if one does not release its lock, refused if it may
// not be asked, cancelled.
struct Interrupted {
  int process = 0;
  std::string run;
};
[[nodiscard]] std::vector<Interrupted> interrupt_runs(const Selector& selector, const std::string& engine,
                                                      const Caller& caller,
                                                      const std::function<void(const RunId&)>& announce,
                                                      const std::stop_token& stop);

// Where a run that was left to the background tells its progress.
[[nodiscard]] std::string log_path(const RunId& run, const Caller& caller);

// ---- The configuration: facts of engines that only a person knows, in $XDG_CONFIG_HOME/combu/config.json.

// The GPUs of the engine at this address, as `engines.ADDRESS.gpus` names them; none without a file. Throws
// Error(invalid) with the file's path as subject.
[[nodiscard]] std::vector<Gpu> configured_gpus(const std::string& address);

// ---- Git

// How the working tree of a file's folder differed from its commit.
struct WorkingTree {
  std::string diff;                    // a patch, as `git apply` takes it
  bool is_cut = false;                 // it was longer
  std::vector<std::string> untracked;  // paths, not their content; neither is that of the next ones
  std::vector<std::string> left_out;   // changed files that may hold secrets
  // Files that a filter of git applies to and that differ from the index in size or time. The diff has their
  // content as it is in the index.
  std::vector<std::string> by_index;
  std::string problem;  // why the commit is not known, or not all of the rest; empty: all is known
};

struct GitRevision {
  std::string commit;  // empty: the folder is under no version control, or working_tree.problem says more
  bool dirty = false;  // what is tracked has been changed since, or could not be compared
  WorkingTree working_tree;
};

// Asks git, where there is one. What may hold secrets is not looked into: the `env_file`s of `evaluated`, and
// what is called like keys and passwords. Submodules are ignored. No filter of git's settings is applied: a
// file that has one and that git would have to filter to compare it, is compared by the index only. SIGINT
// and SIGTERM end the process as elsewhere, and git with it. Call it while there is no `Interrupts`.
[[nodiscard]] GitRevision revision_of(const std::string& folder, const std::string& evaluated);

}  // namespace combu
