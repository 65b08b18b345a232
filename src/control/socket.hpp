#pragma once
// Unix sockets whose path may be longer than an address holds (108 bytes, unix(7)).

#include <string>

#include "combu/base.hpp"

namespace combu::control {

// Not blocking, and for this user only, in a private folder (combu/system.hpp). What is at `path` is removed
// first. Throws Error: refused, or invalid if the folder is not private.
[[nodiscard]] Descriptor listen_at(const std::string& path);

// Throws Error: not_found, or invalid if the folder is not private.
[[nodiscard]] Descriptor connect_to(const std::string& path);

// Ends another thread's poll().
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
