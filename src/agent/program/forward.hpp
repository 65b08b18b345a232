#pragma once
// Writes the output of another program to a descriptor that may be slow.

#include <functional>
#include <string>
#include <string_view>

#include "loop.hpp"

namespace combu::agent {

class Forward {
 public:
  explicit Forward(int to) : to_(to) {}

  // Writes what the reader takes without waiting, and queues the rest. Returns false if the queue is not
  // empty: then calls `on_written` once the queue is written. Drops the bytes if no process reads them any
  // more.
  bool write(Loop& loop, std::string_view bytes, const std::function<void()>& on_written);
  // Blocks until the queue is written.
  void write_rest();

 private:
  bool flush();

  int to_;
  std::string queue_;
  Watch watch_;
};

}  // namespace combu::agent
