#pragma once
// A process that is at work on a run, as others meet it: its lock, its channel, its place in the background.

#include <chrono>
#include <memory>
#include <optional>

#include "app/load.hpp"
#include "app/run_options.hpp"
#include "combu/control.hpp"
#include "combu/session.hpp"
#include "combu/workspace.hpp"

namespace combu {

// The background of a process: where it goes on when its command has ended.
class Background {
 public:
  virtual ~Background() = default;
  // From here on the process in the foreground is not needed and ends. What this process prints goes to
  // `log`, a descriptor.
  virtual void enter(const RunId& run, int log) const = 0;
};

// nullptr where no lock can be had: the run is worth more, and a note is given. Throws Error(conflict) when
// another process holds it.
[[nodiscard]] std::unique_ptr<RunLock> take_lock(LockScope scope, Session& session, const Loaded& loaded);

// interrupt_runs() on the session's engine. The processes get to know `by`, the command that asks ("combu
// kill"). Prints one line for each.
void interrupt_processes(Session& session, const Selector& selector, const std::string& by,
                         const Caller& caller);

// Outlives the session.
class RunOwner {
 public:
  // `background`: nullptr for a process that stays in the foreground.
  explicit RunOwner(const Background* background) : background_(background) {}
  ~RunOwner();
  RunOwner(const RunOwner&) = delete;
  RunOwner& operator=(const RunOwner&) = delete;

  // What is shown on `progress` others may follow.
  [[nodiscard]] std::unique_ptr<Progress> share(std::unique_ptr<Progress> progress);

  // Takes the run's lock, then opens its channel. Throws Error: conflict when another process is at work on
  // it, refused when there is no place for the background's log.
  void begin(Session& session, const Loaded& loaded, const RunOptions& options);

  // Nothing can be refused any more.
  void leave_foreground(const Loaded& loaded);
  [[nodiscard]] Steering& steering() { return *steering_; }

  // Somebody has asked for the run, which is at rest: returns when that is done, or `stop` is set; false when
  // it has taken too long, and the run has been taken back.
  [[nodiscard]] bool hand_over(const std::stop_token& stop) {
    return channel_.hand_over(stop, k_hand_over_max);
  }

  // What the process ends with, for those that follow. Gives it back.
  [[nodiscard]] int done(int exit_code);

 private:
  // Nothing is started, and no timeout is seen to, for as long.
  static constexpr std::chrono::seconds k_hand_over_max{10};

  const Background* background_;
  // The socket is removed while the lock is held: then it is nobody else's.
  std::unique_ptr<RunLock> lock_;
  std::optional<Descriptor> log_;
  std::string unused_log_;  // its path, until something may have been written there
  std::optional<Steering> steering_;
  ControlServer channel_;
  SharedProgress* progress_ = nullptr;
};

}  // namespace combu
