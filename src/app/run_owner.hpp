#pragma once
// The owner of a run, and how other processes notice the owner: by the run's lock and channel. Also moves the
// owner to the background.

#include <chrono>
#include <memory>
#include <optional>

#include "app/load.hpp"
#include "app/run_options.hpp"
#include "combu/control.hpp"
#include "combu/session.hpp"
#include "combu/workspace.hpp"

namespace combu {

// Lets the owner of a run continue in the background after the command has ended.
class Background {
 public:
  virtual ~Background() = default;
  // Moves this process to the background, and ends the process in the foreground. `log`: the file descriptor
  // to which this process then writes its output.
  virtual void enter(const RunId& run, int log) const = 0;
};

// Takes a lock of the run. If the lock cannot be used, prints a note and returns nullptr, so that the run can
// continue without the lock. Throws Error(conflict) if another process holds the lock.
[[nodiscard]] std::unique_ptr<RunLock> acquire_lock(LockScope scope, Session& session, const Loaded& loaded);

// Calls interrupt_runs() for runs on the session's engine, and prints one line for each interrupted process.
// `by`: the interrupting command, for example "combu kill", which the interrupted processes show.
void interrupt_processes(Session& session, const Selector& selector, const std::string& by,
                         const Caller& caller);

// Makes this process the owner of a run. A RunOwner must outlive the session.
class RunOwner {
 public:
  // `background`: nullptr for a process that stays in the foreground.
  explicit RunOwner(const Background* background) : background_(background) {}
  ~RunOwner();
  RunOwner(const RunOwner&) = delete;
  RunOwner& operator=(const RunOwner&) = delete;

  // Returns a Progress that forwards everything to `progress`, and that other processes can follow.
  [[nodiscard]] std::unique_ptr<Progress> share(std::unique_ptr<Progress> progress);

  // Takes the run's lock, then opens the run's channel. Throws Error(conflict) if the run has another owner.
  // Throws Error(refused) if the log file for the background cannot be opened.
  void begin(Session& session, const Loaded& loaded, const RunOptions& options);

  // If the constructor got a `background`, moves this process there. Call this function after the last check
  // that can refuse the run.
  void leave_foreground(const Loaded& loaded);
  [[nodiscard]] Steering& steering() { return *steering_; }

  // Hands over the run to the process that asked for the run. Call this function while no start is in flight.
  // Blocks until that process returns the run, or until `stop` requests a stop. If that process takes longer
  // than k_hand_over_max, takes the run back and returns false.
  [[nodiscard]] bool hand_over(const std::stop_token& stop) {
    return channel_.hand_over(stop, k_hand_over_max);
  }

  // Sends `exit_code`, the exit code of this process, to all processes that follow the run. Returns
  // `exit_code`.
  [[nodiscard]] int done(int exit_code);

 private:
  // Maximum duration of a hand-over, during which combu starts no trial and enforces no timeout.
  static constexpr std::chrono::seconds k_hand_over_max{10};

  const Background* background_;
  // Declared before `channel_`, whose destructor removes the socket: the lock is still held then, so the
  // socket cannot belong to another owner.
  std::unique_ptr<RunLock> lock_;
  std::optional<Descriptor> log_;
  std::string unused_log_;  // path of the log that this process created, but has not used yet
  std::optional<Steering> steering_;
  ControlServer channel_;
  SharedProgress* progress_ = nullptr;
};

}  // namespace combu
