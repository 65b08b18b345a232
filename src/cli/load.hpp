#pragma once

#include <optional>

#include "cli/invocation.hpp"
#include "combu/plan.hpp"

namespace combu {

struct Loaded {
  Run run;
  Plan plan;
  Caller caller;
};

// Evaluates, reads and plans the invocation's file. Every error in it is told on `progress`, as "FILE: PATH:
// what is wrong"; then there is nothing to go on with. Throws Error(invalid) for options that make no sense.
// Forks: call it before there are threads.
[[nodiscard]] std::optional<Loaded> load(const Invocation& invocation, const RunId& run, Progress& progress);

}  // namespace combu
