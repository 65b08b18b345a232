#pragma once
// Runs work in a child process. The work may crash, use up memory or never end.

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "combu/base.hpp"

namespace combu {

struct ChildLimits {
  // Address space of the child, in addition to what this process has mapped when it creates the child.
  Bytes memory_max;
  // A point in time, so that a second child gets only the time that the first one has left.
  std::chrono::steady_clock::time_point deadline;
};

// Returns the time after `duration`, at most one year from the present.
[[nodiscard]] std::chrono::steady_clock::time_point timestamp_after(Seconds duration);

struct ChildEnd {
  enum class Kind {
    answered,
    out_of_memory,
    crashed,      // by SIGSEGV or SIGBUS: its stack was too small
    interrupted,  // by SIGINT, SIGTERM or SIGHUP, for example Ctrl-C
    timed_out,
    gave_up,  // it called abort(); `account` is its standard error and is not empty
    died,     // for any other reason, which `account` names
  };
  Kind kind = Kind::died;
  std::string answer;   // complete, or empty
  std::string account;  // text for the user
};

using Write = std::function<void(std::string_view)>;

// The work of a child: passes its answer to the Write function in any number of parts, and returns. combu
// adds a NUL byte to mark the end of the answer.
using ChildWork = std::function<void(const Write&)>;

// How to handle a child's standard error. `dropped`: combu discards it. `shown`: each complete line of
// std.trace is passed on at once, and any later text when the child ends. If the child gave up, `account`
// holds that text instead.
enum class Traces { shown, dropped };

// Calls `work` in a child process and returns what it wrote. Blocks. Calls `slow` (may be empty) once, after
// one second. The child never outlives this process. If the caller has blocked SIGINT, SIGTERM or SIGHUP,
// such a signal still ends the child, and stays pending for the caller. Throws Error(unavailable) if no child
// can be created. If `slow` throws, the child is killed and the exception passes through.
[[nodiscard]] ChildEnd run_in_child(const ChildLimits& limits, Traces traces, const ChildWork& work,
                                    const std::function<void()>& slow);

}  // namespace combu
