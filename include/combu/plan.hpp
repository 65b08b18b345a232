#pragma once
// The dependency graph of an experiment's trials. Pure: uses no clock, file or socket.

#include <cstdint>
#include <vector>

#include "combu/base.hpp"
#include "combu/spec.hpp"

namespace combu {

using TrialIndex = std::uint32_t;  // index into Experiment::trials

struct Edge {
  TrialIndex trial;  // in Node::needs the needed trial, in Node::needed_by the dependent trial
  Condition condition;
  bool operator==(const Edge&) const = default;
};

struct Plan {
  struct Node {
    std::vector<Edge> needs;      // dependencies that must be met before the trial starts
    std::vector<Edge> needed_by;  // the reverse edges: trials that depend on this trial
    // number of edges of the longest path from a trial without dependencies to this trial
    std::uint32_t wave = 0;
  };
  std::vector<Node> nodes;  // one node for each trial, in the order of Experiment::trials
  std::uint32_t wave_count = 0;
};

struct Planning {
  Plan plan;  // complete only if `errors` is empty
  // Errors about duplicate and unknown names, cycles ("a → b → a"), missing inputs, host ports that are used
  // twice, and waits that never end.
  std::vector<Error> errors;
};

// Returns the graph of the experiment and every error in its dependencies. Takes time linear in the numbers
// of trials and edges. Uses no recursion, so that a chain of dependencies may have any length. Skips trials
// without a name, because the reader of the experiment file reports these trials.
[[nodiscard]] Planning make_plan(const Experiment& experiment);

}  // namespace combu
