#pragma once
// Work that may crash, eat all memory or never end, done in a child process.

#include <functional>
#include <string>

#include "combu/base.hpp"

namespace combu {

struct ChildLimits {
  Bytes memory_max;  // beyond what this process has mapped when the child is made
  Seconds time_max;
};

struct ChildEnd {
  enum class Kind {
    answered,
    out_of_memory,
    crashed,      // SIGSEGV or SIGBUS: its stack was not enough
    interrupted,  // by a signal meant for the person's command, such as Ctrl-C
    timed_out,
    died,  // of something else; `account` says what
  };
  Kind kind = Kind::died;
  std::string answer;   // all of it, or nothing
  std::string account;  // for a person
};

// Calls `work` in a child and gives what it returned. Blocks; calls `slow` (may be empty) once, after one
// second. The child ends with this process, whatever ends it. A SIGINT, SIGTERM or SIGHUP that the caller has
// blocked ends the child too, and stays pending. Throws Error(unavailable) when no child can be made; an
// exception of `slow` ends the child and is thrown on.
[[nodiscard]] ChildEnd run_in_child(const ChildLimits& limits, const std::function<std::string()>& work,
                                    const std::function<void()>& slow);

}  // namespace combu
