#pragma once
// The channel to the process that is at work on a run: what it tells, others may follow, and ask it to change
// the run. A unix socket; JSON lines, as docs/cli.md describes them.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "combu/progress.hpp"
#include "combu/run.hpp"

namespace combu {

// At the process that is at work. One thread of its own serves all clients; methods may be called from any
// thread, and never wait for a client: one that falls too far behind is cut off.
class ControlServer {
 public:
  // False when nothing can be changed any more.
  using Adjusting = std::function<bool(const Adjust&, Steering::Answer)>;
  // Has the run brought to a rest; false when it is not under way.
  using Departure = std::function<bool()>;

  ControlServer();  // starts no thread
  // The last lines still go to those that take them within a second; the socket's file is removed.
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  // Takes clients at `path`, in place of a socket that a dead process has left there: the caller holds the
  // run's lock. Only this user may connect. Throws Error(refused). Call it once.
  void open(const std::string& path, Adjusting adjusting, Departure departure);

  // A whole line for those that follow; of "phase", "begin", "failure" (a fact), "snapshot" and "done" also
  // for those that come later.
  void tell(std::string_view event, std::string_view line);
  // Whether anybody would hear what is not kept for later.
  [[nodiscard]] bool is_followed() const;
  // The run is at rest: whoever has asked for that is told, and has it until it closes its connection, which
  // is waited for (or for `stop`). False when it has not done so within `patience`: then it is cut off.
  [[nodiscard]] bool hand_over(const std::stop_token& stop, std::chrono::milliseconds patience);
  // The last line: with what the process ends.
  void done(int exit_code);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Shows a command's progress, and tells it on the channel, too.
class SharedProgress final : public Progress {
 public:
  // `server` outlives it.
  SharedProgress(std::unique_ptr<Progress> progress, ControlServer& server);

  // From here on it is shown on this one.
  void show_on(std::unique_ptr<Progress> progress);

  void phase(std::string_view text) override;
  void preparation(const Preparation& preparation) override;
  void counted(std::string_view verb, std::size_t count, std::size_t total) override;
  void note(std::string_view line) override;
  void error(std::string_view line) override;
  void begin(const Run& run) override;
  void fact(const Fact& fact) override;
  void failure(const Fact& fact, const std::vector<std::string>& tail) override;
  void snapshot(const Snapshot& snapshot) override;
  void end() override;

 private:
  // Sends the line of a fact. Many trials have many: one is made only for those who follow, or, of a failure,
  // for those who come later.
  void tell(const Fact& fact, const std::function<void()>& line);
  [[nodiscard]] Progress& shown() const { return *shown_.load(); }

  std::unique_ptr<Progress> first_;
  std::unique_ptr<Progress> later_;
  std::atomic<Progress*> shown_;
  ControlServer& server_;
  bool fails_ = false;  // the event that is being sent is about a failure
  std::unique_ptr<Progress> told_;
};

// At any other process. Belongs to one thread.
class ControlClient {
 public:
  // Throws Error(not_found) when nobody listens at `path`.
  explicit ControlClient(const std::string& path);
  ~ControlClient();
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  // Gives the settings as they are then; blocks until they are in force. Throws Error: invalid for a number
  // that cannot be; refused in the process's words, or when it does not answer within ten seconds; not_found
  // when it ends meanwhile; cancelled.
  [[nodiscard]] Settings adjust(const Adjust& adjust, const std::stop_token& stop);

  // Has the run brought to a rest, with no start in flight and nobody else at its record, until this object
  // is gone. Throws Error: not_found when the process ends meanwhile, refused in its words, cancelled.
  void take_over(const std::stop_token& stop);

  // Throws Error(conflict) when the run that was taken over has been taken back.
  void expect_the_run() const;

  // Shows on `progress` what the run's process tells, beginning with where the run stands, and gives the exit
  // code that it ends with; nullopt when it went without a word, or `stop` is set. `run` is filled with what
  // is told, and outlives `progress`. Throws Error(refused) when it is not understood.
  [[nodiscard]] std::optional<int> follow(Progress& progress, Run& run, const std::stop_token& stop);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace combu
