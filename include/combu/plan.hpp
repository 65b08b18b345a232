#pragma once
// The order of an experiment's trials. Pure: no clock, file or socket.

#include <cstdint>
#include <vector>

#include "combu/base.hpp"
#include "combu/spec.hpp"

namespace combu {

using TrialIndex = std::uint32_t;  // a trial's place in Experiment::trials

struct Edge {
  TrialIndex trial;  // the other end
  Condition condition;
  bool operator==(const Edge&) const = default;
};

struct Plan {
  struct Node {
    std::vector<Edge> needs;      // what must be so before it starts
    std::vector<Edge> needed_by;  // the same edges, seen from the other end
    std::uint32_t wave = 0;       // longest distance from the roots
  };
  std::vector<Node> nodes;  // one for each trial, same order
  std::uint32_t wave_count = 0;
};

struct Planning {
  Plan plan;                  // complete only when there are no errors
  std::vector<Error> errors;  // repeated and unknown names, cycles ("a → b → a"), host ports used twice
};

// Time linear in trials and edges; no recursion, so that a chain of any length plans. Trials without a name
// (the reader has told that) are passed over.
[[nodiscard]] Planning make_plan(const Experiment& experiment);

}  // namespace combu
