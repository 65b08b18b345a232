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

// Returns the value of a variable of this process's environment; nullopt if the variable is not set.
[[nodiscard]] std::optional<std::string> environment(const std::string& name);

// ---- The experiment's file and its caller

// Returns the absolute path that identifies an experiment. `file` is the argument of -f and need not exist.
// If `file` is standard input ("-"), the result is "FOLDER/-" with the path of the current folder.
[[nodiscard]] std::string identity_of(const std::string& file);

// Returns the user who called combu, the folder of `file` and the environment, for read_experiment().
[[nodiscard]] Caller caller_of(const std::string& file);

// Return the name of the calling user (the user id if the user has no name) and the host name of this
// machine. Both names are stored in the record.
[[nodiscard]] std::string user_name();
[[nodiscard]] std::string machine_name();

// ---- The state folder

// Returns the folder for data that outlives a combu process: $COMBU_HOME, else $XDG_STATE_HOME/combu, else
// ~/.local/state/combu.
[[nodiscard]] std::string state_folder(const Caller& caller);

// ---- Locks
//
// At most one process starts trials of an experiment on an engine, since two processes would interfere with
// each other. At most one process owns a run.

enum class LockScope { starts, run };

// A lock that a RunLock object holds from its construction to its destruction. The system also releases the
// lock if the process is killed by SIGKILL. The lock excludes only processes of the same user on the same
// machine. Runs of other users are detected by the names of their containers.
class RunLock {
 public:
  // `engine` is the address of the engine. The constructor waits up to 3 s for the current holder to release
  // the lock. Throws Error(conflict) if another process still holds the lock, Error(refused) if the lock file
  // cannot be created, and Error(cancelled) if `stop` requests a stop.
  RunLock(LockScope scope, const Run& run, const std::string& engine, const Caller& caller,
          const std::stop_token& stop);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  Descriptor file_;
};

// Returns the process id of the run's owner; nullopt if no process on this machine owns the run.
[[nodiscard]] std::optional<int> owner_pid(const RunId& run, const Caller& caller);

// Returns the path of the socket on which the run's owner accepts requests of other combu processes.
[[nodiscard]] std::string channel_path(const RunId& run, const Caller& caller);

// A combu process to which interrupt_runs() has sent SIGINT, and the run that the process drives.
struct Interrupted {
  int process = 0;
  std::string run;
};
// Sends SIGINT, as Ctrl-C does, to each process that holds a lock of a run that matches `selector`. An
// interrupted process starts no more trials. Calls `announce` before each signal, and waits until the
// interrupted processes have released their locks. Returns the interrupted processes. Throws Error(conflict)
// if a process does not release its lock. Throws Error(refused) if the system does not permit the signal, and
// Error(cancelled) if `stop` requests a stop.
[[nodiscard]] std::vector<Interrupted> interrupt_runs(const Selector& selector, const std::string& engine,
                                                      const Caller& caller,
                                                      const std::function<void(const RunId&)>& announce,
                                                      const std::stop_token& stop);

// Returns the path of the file to which a run in the background writes its progress.
[[nodiscard]] std::string log_path(const RunId& run, const Caller& caller);

// ---- The configuration: facts about engines that only the user knows, in
// $XDG_CONFIG_HOME/combu/config.json.

// Returns the GPUs that `engines.ADDRESS.gpus` of the configuration lists for the engine at `address`; empty
// if the configuration file does not exist. Throws Error(invalid), which names the configuration file, if the
// file is invalid.
[[nodiscard]] std::vector<Gpu> configured_gpus(const std::string& address);

// ---- Git

// The differences between a folder's working tree and its commit.
struct WorkingTree {
  std::string diff;                    // a patch that `git apply` accepts
  bool is_cut = false;                 // true if the end of `diff` is left out, because the diff is too large
  std::vector<std::string> untracked;  // paths of untracked files, without their content
  std::vector<std::string> left_out;   // changed files that may hold secrets; not in `diff`
  // Paths of files that have a git filter, and whose size or modification time differs from the index. For
  // these files, `diff` shows the content in the index instead of the file's content.
  std::vector<std::string> by_index;
  std::string problem;  // why the commit or a part of WorkingTree is unknown; empty: everything is known
};

struct GitRevision {
  std::string commit;  // empty: the folder is in no git repository, or working_tree.problem says why the
                       // commit is unknown
  bool dirty = false;  // true if tracked files differ from the commit, or if git could not compare them
  WorkingTree working_tree;
};

// Returns the revision of `folder` as git reports it; empty if git is not installed. Does not read files that
// may hold secrets: the `env_file`s and the files of `secrets` in `evaluated` (the evaluated experiment
// file), and files whose names suggest keys or passwords. Ignores submodules, and runs no filter that git's
// settings name. A file with a filter is compared only with the index. SIGINT and SIGTERM end this process as
// usual, together with git. The caller must call revision_of() only while no `Interrupts` object exists.
[[nodiscard]] GitRevision revision_of(const std::string& folder, const std::string& evaluated);

}  // namespace combu
