#pragma once
// The event loop: one epoll descriptor for all sockets and pipes.

#include <sys/epoll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "system.hpp"

namespace combu::agent {

class Watch;

class Loop {
 public:
  Loop();
  // Waits at most `timeout_ms` for events, and calls the handler of each one.
  void turn(int timeout_ms);

 private:
  friend class Watch;
  void forget(const Watch& watch);

  Descriptor epoll_;
  std::array<epoll_event, 64> events_{};
  std::size_t count_ = 0;  // number of events in `events_` during a turn
};

// Calls a handler whenever a descriptor has one of the wanted events. EPOLLHUP and EPOLLERR are always
// wanted. A handler may stop its watch, but must not destroy it.
class Watch {
 public:
  using Handler = std::function<void(std::uint32_t events)>;

  Watch() = default;
  ~Watch() { stop(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  Watch(Watch&&) = delete;
  Watch& operator=(Watch&&) = delete;

  // Returns false if the descriptor cannot be watched, such as that of a regular file.
  bool start(Loop& loop, int descriptor, std::uint32_t events, Handler handler);
  // Changes the wanted events.
  void want(std::uint32_t events);
  // Must be called before the descriptor is closed.
  void stop();
  [[nodiscard]] bool is_active() const { return loop_ != nullptr; }

 private:
  friend class Loop;

  Loop* loop_ = nullptr;
  int descriptor_ = -1;
  std::uint32_t events_ = 0;
  Handler handler_;
};

}  // namespace combu::agent
