#pragma once
// Functions for Unix sockets whose path may be longer than the 108 bytes that a socket address can hold
// (unix(7)).

#include <string>

#include "combu/base.hpp"

namespace combu::control {

// Returns a non-blocking listening socket that only this user can connect to, in a private folder
// (combu/system.hpp). Removes an existing file at `path` first. Throws Error(refused) if the socket cannot be
// created, and Error(invalid) if the folder is not private.
[[nodiscard]] Descriptor listen_at(const std::string& path);

// Connects to the socket at `path`; waits at most five seconds. Throws Error(not_found) if no process
// answers, and Error(invalid) if the folder is not private.
[[nodiscard]] Descriptor connect_to(const std::string& path);

// An event descriptor with which one thread wakes the poll() of another thread.
class Bell {
 public:
  Bell();
  [[nodiscard]] int number() const { return event_.number(); }
  void ring() const;
  void silence() const;

 private:
  Descriptor event_;
};

}  // namespace combu::control
