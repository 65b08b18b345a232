#pragma once
// Runs side by side: which trials belong together, and how far what they have told differs.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "combu/view.hpp"
#include "view/statistics.hpp"

namespace combu {

// Trials that mean the same but for `over`.
struct Pair {
  std::vector<Value> params;              // by Pairs::params
  std::string trial;                      // the name, of trials without params
  std::vector<Sample> samples;            // by run; without values where the run has none
  std::vector<Difference> differences{};  // from the first run, by run from the second one on
};

struct PairTable {
  std::string metric;                                 // the column's name
  std::vector<std::string> params;                    // in which the pairs differ
  bool by_name = false;                               // some have no params
  std::vector<std::pair<std::string, Value>> shared;  // the params that are the same in all pairs
  std::vector<Pair> pairs;                            // that are in two runs or more; of one run all
  std::vector<Difference> overall;                    // by run from the second one on: of the pairs' means
  std::vector<std::size_t> overall_count;
  std::vector<std::string> notes;  // what is left out, and why
};

// One for each metric. Throws Error(invalid) for a column that no run has.
[[nodiscard]] std::vector<PairTable> compare(std::span<const Results> runs, const CompareForm& form);

}  // namespace combu
