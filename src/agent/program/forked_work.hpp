#pragma once
// Work in a forked child, which may take long: archives and the removal of large folders.

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "system.hpp"

namespace combu::agent {

// The answer of a helper.
struct Report {
  std::uint8_t status = 0;  // 0: success
  std::string text;
};

struct Helper {
  pid_t pid = -1;
  Descriptor stream;  // the bytes to or from the helper
  Descriptor report;  // the end of a pipe that holds the Report when the helper closes `stream`
};

enum class Direction { to_helper, from_helper, none };

using HelperWork = std::function<Report(int stream, int folder)>;

// Forks a child that calls `work` with its end of the stream and the descriptor of a folder, and exits. The
// child has no other descriptors. Both descriptors of the parent are nonblocking. Returns false and sets
// errno on failure.
bool start_helper(Direction direction, int folder, const HelperWork& work, Helper& helper);

// Calls `work` in this process, like a child that sends a stream. Returns false if `work` fails, which it
// does if the stream does not fit into an empty pipe.
bool help_without_child(int folder, const HelperWork& work, Helper& helper);

// Returns the report of a helper that has closed its stream. `status` is `otherwise` if it has ended without
// one.
Report report_of(const Helper& helper, std::uint8_t otherwise);

}  // namespace combu::agent
