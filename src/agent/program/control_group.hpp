#pragma once
// The control group of the agent: counts the processes that the kernel killed for lack of memory.

#include <cstdint>
#include <string>

#include "system.hpp"

namespace combu::agent {

class ControlGroup {
 public:
  // Finds the group of this process, of version 2 or 1.
  ControlGroup();
  // Returns the number of processes of the group that the kernel has killed for lack of memory; 0 if unknown.
  [[nodiscard]] std::uint64_t oom_kills();

 private:
  Descriptor events_;
  std::string text_;
};

}  // namespace combu::agent
