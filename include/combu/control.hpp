#pragma once
// The channel to the owner of a run, that is, the process that drives the run. Clients of the channel follow
// the run's progress and ask the owner to change the run. The channel is a Unix socket with JSON lines, as
// docs/cli.md describes.

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

// The server of the channel, in the process that owns the run. One thread of the server serves all clients.
// All methods may be called from any thread. Only hand_over() and the destructor wait for clients. If a
// client reads too slowly, the server disconnects the client.
class ControlServer {
 public:
  // A function that changes the settings of the run. Returns false if the run has ended or is about to end.
  using Adjusting = std::function<bool(const Adjust&, Steering::Answer)>;
  // A function that asks drive() to return as soon as no start is under way. Returns false if drive() is not
  // running.
  using Departure = std::function<bool()>;

  ControlServer();  // starts no thread
  // Removes the socket's file. Waits up to a second until the server has sent all remaining lines to the
  // clients.
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  // Starts to accept clients at the socket `path`. Only processes of this user may connect. The caller must
  // hold the run's lock, because open() replaces an existing socket, which a dead process may have left. The
  // owner must call open() only once. Throws Error(refused) if the socket cannot be created.
  void open(const std::string& path, Adjusting adjusting, Departure departure);

  // Sends `line`, which must include its line end, to all clients that follow the run. For clients that
  // connect later, the server also keeps the lines of the events "phase", "begin", "failure", "snapshot" and
  // "done".
  void publish(std::string_view event, std::string_view line);
  // True if any client follows the run.
  [[nodiscard]] bool is_followed() const;
  // Hands the run over to the client that has asked to take it over. Blocks until the client disconnects or
  // `stop` requests a stop, but at most for `patience`. If the client is still connected after `patience`,
  // hand_over() disconnects the client and returns false.
  [[nodiscard]] bool hand_over(const std::stop_token& stop, std::chrono::milliseconds patience);
  // Sends the last line of the channel, which contains the exit code of the process.
  void done(int exit_code);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Shows a command's progress and also sends it to the channel.
class SharedProgress final : public Progress {
 public:
  // `server` must outlive the SharedProgress object.
  SharedProgress(std::unique_ptr<Progress> progress, ControlServer& server);

  // From now on, shows the progress on `progress` instead of the previous Progress.
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
  // `line` is a function that sends the JSON line of `fact`. publish() calls `line` if a client follows the
  // run or if `fact` is a failure. The server keeps the lines of failures for later clients. Without a
  // client, publish() does not call `line` for other facts, because a run with many trials has many facts.
  void publish(const Fact& fact, const std::function<void()>& line);
  [[nodiscard]] Progress& shown() const { return *shown_.load(); }

  std::unique_ptr<Progress> first_;
  std::unique_ptr<Progress> later_;
  std::atomic<Progress*> shown_;
  ControlServer& server_;
  bool fails_ = false;  // true while an event about a failure is being sent
  std::unique_ptr<Progress> json_;
};

// The client's side of the channel to a run's owner. Not thread-safe.
class ControlClient {
 public:
  // Throws Error(not_found) if no process listens at `path`.
  explicit ControlClient(const std::string& path);
  ~ControlClient();
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  // Asks the owner to change the settings of the run. Blocks until the owner has changed the settings, and
  // returns the new settings.
  //
  // Throws Error(invalid) if a number is out of range. Throws Error(refused) with the owner's message if the
  // owner refuses the change. Also throws Error(refused) if the owner has not answered within ten seconds.
  // Throws Error(not_found) if the owner ends before it answers. Throws Error(cancelled) if `stop` requests a
  // stop.
  [[nodiscard]] Settings adjust(const Adjust& adjust, const std::stop_token& stop);

  // Blocks until the owner has no start under way and no longer writes to the run's record. The caller may
  // then change the run until the ControlClient is destroyed. Throws Error(not_found) if the owner ends,
  // Error(refused) with the owner's message if the owner refuses, and Error(cancelled) if `stop` requests a
  // stop.
  void take_over(const std::stop_token& stop);

  // Throws Error(conflict) if the owner has ended, or has taken back the run after take_over().
  void expect_the_run() const;

  // Shows the owner's progress on `progress`, starting with the run's present state. Returns the owner's exit
  // code, or nullopt if the owner ends without sending an exit code, or if `stop` requests a stop. Fills
  // `run` from the owner's lines; `run` must outlive `progress`. Throws Error(refused) if the owner sends an
  // invalid line.
  [[nodiscard]] std::optional<int> follow(Progress& progress, Run& run, const std::stop_token& stop);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace combu
