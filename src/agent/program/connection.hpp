#pragma once
// A connection to a client: the standard input and output of a `join` process.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "combu/agent.hpp"
#include "loop.hpp"
#include "system.hpp"

namespace combu::agent {

class Connection;

// An answer that is too large for one turn of the event loop.
class Answer {
 public:
  enum class State { more, waiting, over };

  explicit Answer(std::uint32_t request) : request_(request) {}
  virtual ~Answer() = default;
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;
  Answer(Answer&&) = delete;
  Answer& operator=(Answer&&) = delete;

  // Sends the next part. Never blocks.
  virtual State produce(Connection& connection) = 0;
  [[nodiscard]] std::uint32_t request() const { return request_; }
  // False if the client must consume some of the answer first (see More).
  [[nodiscard]] bool has_credit() const { return credit_ > 0; }
  void grant(std::uint64_t bytes) { credit_ += static_cast<std::int64_t>(bytes); }

 protected:
  void spend(std::size_t bytes) { credit_ -= static_cast<std::int64_t>(bytes); }

 private:
  std::uint32_t request_;
  std::int64_t credit_ = k_window;
};

class Connection {
 public:
  // `control`: the socket on which the `join` process waits; it closes its end when it is killed.
  Connection(std::uint64_t number, Descriptor in, Descriptor out, Descriptor control);
  // Watches the descriptors. `readable` is called when the client has sent something. Returns false if they
  // cannot be watched.
  bool start(Loop& loop, std::function<void()> readable);

  // Reads once, and gives the bytes to the reader of frames. Closes the connection at its end.
  void receive();
  [[nodiscard]] FrameReader::Result next(Frame& frame) { return reader_.next(frame); }
  // Stops reading until resume().
  void pause() { in_watch_.want(0); }
  void resume() { in_watch_.want(EPOLLIN); }

  // Queues a message, which flush() writes. Closes the connection if the client has not read too many bytes.
  template <class Message>
  void send(const Message& message) {
    append(queue_, message);
    check_queue();
  }
  // Writes what the client takes without waiting.
  void flush();
  [[nodiscard]] std::size_t queued() const { return queue_.size() - queue_begin_; }

  void close() { is_closed_ = true; }
  [[nodiscard]] bool is_closed() const { return is_closed_; }

  [[nodiscard]] std::uint64_t number() const { return number_; }

  // The state of the conversation.
  bool is_greeted = false;         // Hello has been answered
  bool is_listing = false;         // Listed is still to be sent
  std::uint64_t listed = 0;        // number of the last attempt that has been listed
  std::int64_t last_frame_at = 0;  // on the clock of steady_time()
  std::uint64_t paused_by = 0;     // number of an attempt whose inputs wait; 0: none
  std::vector<std::unique_ptr<Answer>> answers;

 private:
  void check_queue();

  std::uint64_t number_;
  Descriptor in_;
  Descriptor out_;
  Descriptor control_;
  Watch in_watch_;
  Watch out_watch_;
  Watch control_watch_;
  FrameReader reader_;
  std::string queue_;  // frames from queue_begin_
  std::size_t queue_begin_ = 0;
  bool is_closed_ = false;
};

}  // namespace combu::agent
