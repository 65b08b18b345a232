#pragma once
// The client's side of one connection to an agent.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "combu/agent.hpp"
#include "combu/engine.hpp"

namespace combu::workers {

// The events of a connection. The reading thread of the connection calls them, one at a time; they must not
// block.
struct AgentEvents {
  std::function<void(agent::Welcome&&)> on_welcome;
  std::function<void(agent::Started&&)> on_started;
  std::function<void(agent::Refused&&)> on_refused;
  std::function<void(agent::Ended&&)> on_ended;
  std::function<void()> on_listed;
  // The connection has ended; the last event. All calls of the client throw Error(unavailable) from now on.
  std::function<void(const std::string& why)> on_broken;
};

// Thread-safe. All functions throw Error(unavailable) if the connection breaks.
class AgentClient {
 public:
  // `subject`: the subject of all errors.
  AgentClient(std::unique_ptr<ByteStream> stream, std::string subject, AgentEvents events);
  // Closes the connection and joins the threads. Must not be called from an event.
  ~AgentClient();
  AgentClient(const AgentClient&) = delete;
  AgentClient& operator=(const AgentClient&) = delete;

  // Sends Hello, and uses threads of its own from now on. Must be called once.
  void begin();

  // May block as long as the agent does not read.
  template <class Message>
  void send(Message message) {
    std::string bytes;
    agent::append(bytes, std::move(message));
    write(bytes);
  }

  // Makes the agent forget attempts. Does not block: the message waits if the agent does not read. It
  // precedes the messages of later calls.
  void forget(const std::vector<std::string>& ids);
  // Calls `sink` for each chunk of the attempt's output at options.since or later. With options.follow,
  // blocks until the attempt has ended. Ignores options.tail. Returns false if the agent could not store a
  // part of the log. Throws Error(not_found) if the agent does not know the attempt.
  bool read_log(const std::string& id, const LogOptions& options,
                const std::function<void(const agent::LogChunk&)>& sink, const std::stop_token& stop);
  // The part of an archive that was passed on.
  struct Position {
    std::uint64_t bytes = 0;
    std::uint32_t crc = 0;
  };
  // Passes a file or folder as a tar archive to `sink`, from `position` on, which advances. Returns and
  // throws as Engine::copy_out(). If the connection breaks, the rest can be collected from the same agent.
  [[nodiscard]] bool collect(const std::string& id, const std::string& path, Position& position,
                             const std::function<void(std::string_view)>& sink, const std::stop_token& stop);
  // Returns nullopt if the attempt does not run.
  [[nodiscard]] std::optional<Usage> usage(const std::string& id, const std::stop_token& stop);
  // Blocks until the events of all frames have been handled that the agent had sent before the call.
  void sync(const std::stop_token& stop);
  // Sends a ping, unless the agent has not answered the last one. Does not block: the ping waits if the agent
  // does not read.
  void ping();
  // Returns for how long the agent has not answered the last ping(); 0: it has answered. Does not block.
  [[nodiscard]] Seconds silence();
  // Makes the connection break, as if the other side had closed it.
  void close() { stream_->close(); }

 private:
  // The answers to one request that the calling thread has not consumed yet.
  struct Answers {
    std::deque<agent::LogChunk> chunks;
    std::deque<std::string> data;
    std::optional<agent::UsageAnswer> usage;
    std::optional<agent::Done> done;
  };
  class Request;

  void write(std::string_view bytes);
  // Like send(), but does not block: the message waits until the agent reads. It precedes later messages.
  template <class Message>
  void post(Message message) {
    const std::scoped_lock lock(mutex_);
    agent::append(posted_, std::move(message));
    has_posted_.notify_one();
  }
  void write_posted(const std::stop_token& stop);
  void read();
  void take(const agent::Frame& frame);
  template <class Message>
  Message decoded(const agent::Frame& frame) const;
  void end_with(const std::string& why);
  [[noreturn]] void throw_broken() const;

  std::unique_ptr<ByteStream> stream_;
  const std::string subject_;
  AgentEvents events_;
  std::mutex write_mutex_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::condition_variable_any has_posted_;
  std::string posted_;  // frames of post() that are not written yet
  std::map<std::uint32_t, Answers> requests_;
  std::uint32_t last_request_ = 0;
  std::uint64_t pinged_ = 0;
  std::uint64_t ponged_ = 0;
  std::uint64_t expected_pong_ = 0;  // the last ping of ping()
  std::chrono::steady_clock::time_point pinged_at_;
  bool is_welcomed_ = false;           // used only by reader_
  std::optional<std::string> broken_;  // why the connection has ended
  std::jthread reader_;
  std::jthread writer_;  // writes the messages of post()
};

}  // namespace combu::workers
