#pragma once
// Unix sockets whose path may be longer than a socket address can hold (108 bytes, unix(7)).

#include <string>

#include "combu/base.hpp"

namespace combu::control {

// Returns a non-blocking listening socket that only this user can connect to, in a private folder
// (combu/system.hpp). Removes a file at `path` first. Throws Error: refused; invalid if the folder is not
// private.
[[nodiscard]] Descriptor listen_at(const std::string& path);

// Connects to the socket at `path`; waits at most five seconds. Throws Error: not_found; invalid if the
// folder is not private.
[[nodiscard]] Descriptor connect_to(const std::string& path);

// Wakes another thread's poll().
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
