#pragma once
// Shows failures during a run: combu prints the first two failures of each kind, and counts the others.

#include <cstddef>
#include <string>
#include <vector>

#include "combu/run.hpp"

namespace combu {

class FailureFeed {
 public:
  // A failure to print: one line about the failure, and the last lines of the trial's log. `line` and `tail`
  // are empty if two equal failures were already printed.
  struct Shown {
    std::string line;
    std::string tail;
  };
  [[nodiscard]] Shown add(const Run& run, const Fact& fact, const std::vector<std::string>& tail);

  // Returns a line such as "failed: 15 more trials: exit code 1: ValueError: x" for each of the three kinds
  // with the most failures that were not printed.
  [[nodiscard]] std::vector<std::string> counted() const;

 private:
  struct Kind {
    TrialState state;
    std::string reason;  // reason of the failures, with the last line of the log if combu has read the log
    std::size_t count;
  };

  std::vector<Kind> kinds_;
};

}  // namespace combu
