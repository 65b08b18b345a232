#pragma once
// Unix sockets whose path may be longer than an address holds (108 bytes, unix(7)).

#include <string>
#include <utility>

namespace combu::control {

// Closed at the end; -1: none.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

// Not blocking, and for this user only. What is at `path` is removed first. Throws Error(refused).
[[nodiscard]] Descriptor listen_at(const std::string& path);

// Throws Error(not_found).
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
