#pragma once
// The process that owns a run, as other processes see it: the run's lock, its channel, and the background.

#include <chrono>
#include <memory>
#include <optional>

#include "app/load.hpp"
#include "app/run_options.hpp"
#include "combu/control.hpp"
#include "combu/session.hpp"
#include "combu/workspace.hpp"

namespace combu {

// The background of a process, where the process continues after its command has ended.
class Background {
 public:
  virtual ~Background() = default;
  // Moves this process to the background; the process in the foreground ends. The output of this process goes
  // to `log`, a descriptor.
  virtual void enter(const RunId& run, int log) const = 0;
};

// Takes a lock. If no lock is available, prints a note and returns nullptr, so that the run can go on. Throws
// Error(conflict) if another process holds the lock.
[[nodiscard]] std::unique_ptr<RunLock> take_lock(LockScope scope, Session& session, const Loaded& loaded);

// Calls interrupt_runs() on the session's engine and prints one line for each interrupted process. The
// processes show `by`, the command that interrupts them ("combu kill").
void interrupt_processes(Session& session, const Selector& selector, const std::string& by,
                         const Caller& caller);

// Owns a run for this process. Must outlive the session.
class RunOwner {
 public:
  // `background`: nullptr for a process that stays in the foreground.
  explicit RunOwner(const Background* background) : background_(background) {}
  ~RunOwner();
  RunOwner(const RunOwner&) = delete;
  RunOwner& operator=(const RunOwner&) = delete;

  // Returns a progress that shows on `progress` and that other processes can follow.
  [[nodiscard]] std::unique_ptr<Progress> share(std::unique_ptr<Progress> progress);

  // Takes the run's lock, then opens the run's channel. Throws Error: conflict if the run has another owner;
  // refused if the background's log cannot be opened.
  void begin(Session& session, const Loaded& loaded, const RunOptions& options);

  // Moves the process to the background. Call it after the last check that can refuse the run.
  void leave_foreground(const Loaded& loaded);
  [[nodiscard]] Steering& steering() { return *steering_; }

  // Hands over the run, which has no start in flight, to the process that asked for it. Blocks until that
  // process is done, or `stop` is set. Returns false if the process took too long and the run has been taken
  // back.
  [[nodiscard]] bool hand_over(const std::stop_token& stop) {
    return channel_.hand_over(stop, k_hand_over_max);
  }

  // Sends the exit code of this process to the followers, and returns it.
  [[nodiscard]] int done(int exit_code);

 private:
  // During a hand-over, combu starts no trial and enforces no timeout.
  static constexpr std::chrono::seconds k_hand_over_max{10};

  const Background* background_;
  // Declared before the channel: the socket is removed while the lock is held, so it cannot be another
  // owner's.
  std::unique_ptr<RunLock> lock_;
  std::optional<Descriptor> log_;
  std::string unused_log_;  // the log's path, while nothing can have been written there
  std::optional<Steering> steering_;
  ControlServer channel_;
  SharedProgress* progress_ = nullptr;
};

}  // namespace combu
