#pragma once
// The channel to the owner of a run, that is, the process that drives it. Clients follow the run's progress
// and ask the owner to change the run. The channel is a Unix socket with JSON lines, as docs/cli.md
// describes.

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

// The owner's side of the channel. A thread of its own serves all clients. All methods may be called from any
// thread. Only hand_over() waits for a client; a client that reads too slowly is disconnected.
class ControlServer {
 public:
  // Returns false if the run has ended or is about to end.
  using Adjusting = std::function<bool(const Adjust&, Steering::Answer)>;
  // Asks drive() to return once no start is in flight. Returns false if the run is not being driven.
  using Departure = std::function<bool()>;

  ControlServer();  // starts no thread
  // Removes the socket's file. Sends the last lines to clients that read them within a second.
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  // Starts to accept clients at `path`. Replaces a socket that a dead process left there, so the caller must
  // hold the run's lock. Only this user may connect. Throws Error(refused). Call it once.
  void open(const std::string& path, Adjusting adjusting, Departure departure);

  // Sends a whole line to all followers. The server also keeps the lines of "phase", "begin", "failure" (a
  // fact), "snapshot" and "done" for clients that connect later.
  void tell(std::string_view event, std::string_view line);
  // True if any client follows the run.
  [[nodiscard]] bool is_followed() const;
  // Notifies the client that asked for the run that no start is in flight, and blocks until that client
  // disconnects or `stop` is set. If the client is still connected after `patience`, the server disconnects
  // it and returns false.
  [[nodiscard]] bool hand_over(const std::stop_token& stop, std::chrono::milliseconds patience);
  // Sends the last line, with the exit code of the process.
  void done(int exit_code);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Shows a command's progress and also sends it to the channel.
class SharedProgress final : public Progress {
 public:
  // `server` must outlive this object.
  SharedProgress(std::unique_ptr<Progress> progress, ControlServer& server);

  // Shows all further progress on `progress`.
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
  // Sends the line of a fact if a client follows the run. Always sends the line of a failure, which the
  // server keeps for later clients. Otherwise makes no line, since a run with many trials has many facts.
  void tell(const Fact& fact, const std::function<void()>& line);
  [[nodiscard]] Progress& shown() const { return *shown_.load(); }

  std::unique_ptr<Progress> first_;
  std::unique_ptr<Progress> later_;
  std::atomic<Progress*> shown_;
  ControlServer& server_;
  bool fails_ = false;  // the event that is being sent is about a failure
  std::unique_ptr<Progress> told_;
};

// A client's side of the channel. Use it from one thread.
class ControlClient {
 public:
  // Throws Error(not_found) if no process listens at `path`.
  explicit ControlClient(const std::string& path);
  ~ControlClient();
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  // Returns the new settings; blocks until they are in force. Throws Error:
  // - invalid, for a number out of range
  // - refused, with the owner's message, or if the owner does not answer within ten seconds
  // - not_found, if the owner ends meanwhile
  // - cancelled
  [[nodiscard]] Settings adjust(const Adjust& adjust, const std::stop_token& stop);

  // Blocks until the owner has no start in flight and has given up the run's record. The caller has the run
  // until this object is destroyed. Throws Error: not_found if the owner ends meanwhile; refused with the
  // owner's message; cancelled.
  void take_over(const std::stop_token& stop);

  // Throws Error(conflict) if the owner has taken back the run that take_over() got.
  void expect_the_run() const;

  // Shows the owner's progress on `progress`, starting with the run's present state. Returns the owner's exit
  // code, or nullopt if the owner ends without a report or `stop` is set. Fills `run` from the owner's lines;
  // `run` must outlive `progress`. Throws Error(refused) if a line cannot be understood.
  [[nodiscard]] std::optional<int> follow(Progress& progress, Run& run, const std::stop_token& stop);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace combu
