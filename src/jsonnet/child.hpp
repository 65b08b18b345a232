#pragma once
// Runs a function in a child process, because the function may crash, use up memory or never end.

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "combu/base.hpp"

namespace combu {

struct ChildLimits {
  // Maximum address space of the child, in addition to the address space that this process has mapped.
  Bytes memory_max;
  // A point in time and not a duration, so that a second child gets only the time that remains after the
  // first child.
  std::chrono::steady_clock::time_point deadline;
};

// Returns the point in time that is `duration` from now, or one year from now if `duration` is longer.
[[nodiscard]] std::chrono::steady_clock::time_point timestamp_after(Seconds duration);

struct ChildEnd {
  enum class Kind {
    answered,
    out_of_memory,
    crashed,      // SIGSEGV or SIGBUS ended the child, because its stack was too small
    interrupted,  // SIGINT, SIGTERM or SIGHUP ended the child, for example after Ctrl-C
    timed_out,
    gave_up,  // the child called abort(); `account` is the child's standard error and is not empty
    died,     // the child ended for another reason, which `account` names
  };
  Kind kind = Kind::died;
  std::string answer;   // the complete answer; empty if the child did not complete an answer
  std::string account;  // text for the user
};

using Write = std::function<void(std::string_view)>;

// A function that the child calls. The function passes its answer to the Write function in any number of
// parts, and returns. combu adds a NUL byte to mark the end of the answer.
using ChildWork = std::function<void(const Write&)>;

// How combu handles a child's standard error. With `dropped`, combu discards the text. With `shown`, combu
// prints each complete line of std.trace at once, and the text after the last such line when the child ends.
// If the child gave up, `account` holds the text after the last line of std.trace.
enum class Traces { shown, dropped };

// Calls `work` in a child process and returns the answer that `work` has written. Blocks. Calls `slow` (may
// be empty) once, after one second, if the child still runs then. The child never outlives this process. If
// the caller has blocked SIGINT, SIGTERM or SIGHUP, such a signal still ends the child, and stays pending for
// the caller. Throws Error(unavailable) if no child can be created. If `slow` throws, the child is killed and
// the exception passes through.
[[nodiscard]] ChildEnd run_in_child(const ChildLimits& limits, Traces traces, const ChildWork& work,
                                    const std::function<void()>& slow);

}  // namespace combu
