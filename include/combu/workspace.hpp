#pragma once
// The surroundings of a run on this machine: caller, environment, state folder, locks, configuration, and the
// git revision of a folder.

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

// The value of a variable of this process's environment; nullopt if the variable is not set.
[[nodiscard]] std::optional<std::string> environment(const std::string& name);

// ---- The experiment's file and its caller

// The absolute path that identifies an experiment. `file` is the argument of -f and need not exist. For
// standard input the result is "FOLDER/-".
[[nodiscard]] std::string identity_of(const std::string& file);

// Returns the user who called combu, the folder of `file` and the environment, for read_experiment().
[[nodiscard]] Caller caller_of(const std::string& file);

// For the record: the name of the calling user (or the user id if there is no name), and this machine's host
// name.
[[nodiscard]] std::string user_name();
[[nodiscard]] std::string machine_name();

// ---- The state folder

// The folder for data that outlives a combu process: $COMBU_HOME, else $XDG_STATE_HOME/combu, else
// ~/.local/state/combu.
[[nodiscard]] std::string state_folder(const Caller& caller);

// ---- Locks: at most one process starts trials of an experiment on an engine, since two would interfere. At
// most one process owns a run.

enum class LockScope { starts, run };

// Held from construction to destruction; SIGKILL releases the lock, too. The lock excludes only processes of
// the same user on the same machine. Runs of other users are detected by the names of their containers.
class RunLock {
 public:
  // `engine`: its address. Waits up to 3 s for the current holder to release the lock. Throws Error: conflict
  // if another process holds it, refused if the lock file cannot be created, cancelled if `stop` is set.
  RunLock(LockScope scope, const Run& run, const std::string& engine, const Caller& caller,
          const std::stop_token& stop);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  Descriptor file_;
};

// The process id of the run's owner; nullopt if no process on this machine owns the run.
[[nodiscard]] std::optional<int> owner_pid(const RunId& run, const Caller& caller);

// The path of the socket on which the run's owner accepts requests of other combu processes.
[[nodiscard]] std::string channel_path(const RunId& run, const Caller& caller);

// A process that got a signal, and its run.
struct Interrupted {
  int process = 0;
  std::string run;
};
// Sends SIGINT, as Ctrl-C does, to the processes that hold a lock of a run that matches `selector`. Those
// processes then start nothing more. Waits until they release their locks. `announce` is called before a
// process gets its signal. Returns the processes that got a signal. Throws Error: conflict if a process does
// not release its lock, refused if the signal is not permitted, cancelled.
[[nodiscard]] std::vector<Interrupted> interrupt_runs(const Selector& selector, const std::string& engine,
                                                      const Caller& caller,
                                                      const std::function<void(const RunId&)>& announce,
                                                      const std::stop_token& stop);

// The file to which a run in the background writes its progress.
[[nodiscard]] std::string log_path(const RunId& run, const Caller& caller);

// ---- The configuration: facts about engines that only the user knows, in
// $XDG_CONFIG_HOME/combu/config.json.

// The GPUs that `engines.ADDRESS.gpus` lists for the engine at `address`; empty if there is no file. Throws
// Error(invalid) with the file's path as subject.
[[nodiscard]] std::vector<Gpu> configured_gpus(const std::string& address);

// ---- Git

// The differences between a folder's working tree and its commit.
struct WorkingTree {
  std::string diff;                    // a patch that `git apply` accepts
  bool is_cut = false;                 // true if the diff was longer and is truncated
  std::vector<std::string> untracked;  // paths without content, as in the next two lists
  std::vector<std::string> left_out;   // changed files that may hold secrets
  // Files with a git filter whose size or time differs from the index. The diff shows their content as in the
  // index.
  std::vector<std::string> by_index;
  std::string problem;  // why the commit or a part of the rest is unknown; empty: all is known
};

struct GitRevision {
  std::string commit;  // empty: the folder is under no version control, or working_tree.problem says why
  bool dirty = false;  // tracked files differ from the commit, or could not be compared
  WorkingTree working_tree;
};

// Returns the revision of `folder` as git reports it; empty if git is not installed. Files that may hold
// secrets are not read: the `env_file`s of `evaluated`, and files with names of keys and passwords.
// Submodules are ignored. combu applies no filter of git's settings. A file with a filter is compared only
// with the index. SIGINT and SIGTERM end the process as usual, together with git. Call it only while no
// `Interrupts` object exists.
[[nodiscard]] GitRevision revision_of(const std::string& folder, const std::string& evaluated);

}  // namespace combu
