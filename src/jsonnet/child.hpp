#pragma once
// Work that may crash, eat all memory or never end, done in a child process.

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "combu/base.hpp"

namespace combu {

struct ChildLimits {
  Bytes memory_max;  // beyond what this process has mapped when the child is made
  // A moment, so that a second child cannot take the whole time again.
  std::chrono::steady_clock::time_point deadline;
};

// `duration` from now; at most in a year.
[[nodiscard]] std::chrono::steady_clock::time_point timestamp_after(Seconds duration);

struct ChildEnd {
  enum class Kind {
    answered,
    out_of_memory,
    crashed,      // SIGSEGV or SIGBUS: its stack was not enough
    interrupted,  // by a signal meant for the person's command, such as Ctrl-C
    timed_out,
    gave_up,  // by an abort; `account` is what it had written to its standard error, never empty
    died,     // of something else; `account` says what
  };
  Kind kind = Kind::died;
  std::string answer;   // all of it, or nothing
  std::string account;  // for a person
};

using Write = std::function<void(std::string_view)>;

// What a child does: it writes its answer, in as many parts as it likes and without NUL bytes, and returns.
using ChildWork = std::function<void(const Write&)>;

// Of what the child writes to its standard error, a line of std.trace is passed on as soon as it is whole;
// what is behind the last of them when the child ends, unless it gave up.
enum class Traces { shown, dropped };

// Calls `work` in a child and gives what it wrote. Blocks; calls `slow` (may be empty) once, after one
// second. The child ends with this process, whatever ends it. A SIGINT, SIGTERM or SIGHUP that the caller has
// blocked ends the child too, and stays pending. Throws Error(unavailable) when no child can be made; an
// exception of `slow` ends the child and is thrown on.
[[nodiscard]] ChildEnd run_in_child(const ChildLimits& limits, Traces traces, const ChildWork& work,
                                    const std::function<void()>& slow);

}  // namespace combu
