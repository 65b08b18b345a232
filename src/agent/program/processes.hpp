#pragma once
// Other processes, as /proc describes them.

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "system.hpp"

namespace combu::agent {

struct ProcessState {
  char state = 0;  // 'Z': has ended, and its parent has not waited for it
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  std::uint64_t cpu_ns = 0;     // also of its children that it has waited for
  std::int64_t started_at = 0;  // on the clock of steady_time(), at most 10 ms too early
  std::uint64_t memory = 0;     // resident bytes
};

// Returns false if the process does not exist or cannot be read.
bool read_process(pid_t pid, ProcessState& state);

// Returns the ids of all processes.
std::vector<pid_t> all_processes();

// Returns false only if the process is certainly not a descendant of this process.
bool may_be_descendant(pid_t pid);

// Returns the value of the variable in the process's initial environment; an empty text if there is none.
std::string variable_of(pid_t pid, std::string_view name);

// Finds the children of this process.
class Children {
 public:
  Children();
  [[nodiscard]] std::vector<pid_t> list();
  // Returns the children of another process.
  [[nodiscard]] static std::vector<pid_t> of(pid_t pid);

 private:
  Descriptor file_;
  std::string text_;
};

}  // namespace combu::agent
