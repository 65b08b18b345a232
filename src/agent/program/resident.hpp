#pragma once
// The calls of a resident program.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "combu/agent.hpp"
#include "loop.hpp"
#include "system.hpp"

namespace combu::agent {

class Resident {
 public:
  // Takes the value of a call.
  using Answer = std::function<void(std::uint64_t number, Returned::Status status, std::string bytes)>;

  // `calls`: the end of the pipe to which the agent writes; `returns`: the end from which it reads.
  Resident(Loop& loop, Descriptor calls, Descriptor returns, Answer answer);
  Resident(const Resident&) = delete;
  Resident& operator=(const Resident&) = delete;
  Resident(Resident&&) = delete;
  Resident& operator=(Resident&&) = delete;
  ~Resident() = default;

  // Sends a call to the program without waiting. Returns Returned::ok, or the reason for which it cannot.
  Returned::Status call(std::uint64_t number, std::string_view bytes);
  // Takes the values that the program has returned.
  void drain();

 private:
  void flush();
  bool read_some();
  void take_values();

  Answer answer_;
  Descriptor calls_;
  Descriptor returns_;
  Watch write_watch_;
  Watch read_watch_;
  std::string queue_;  // calls that the program has not taken, from queue_begin_
  std::size_t queue_begin_ = 0;
  std::string input_;
  std::uint64_t skipped_ = 0;  // bytes of a too large value that are still to come
};

}  // namespace combu::agent
