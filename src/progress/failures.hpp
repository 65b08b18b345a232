#pragma once
// Shows failures while a run goes on: two of each kind are printed, and further equal ones are counted.

#include <cstddef>
#include <string>
#include <vector>

#include "combu/run.hpp"

namespace combu {

class FailureFeed {
 public:
  // A failure to print: one line, and the last lines of its log. Both are empty if two equal failures were
  // already printed.
  struct Shown {
    std::string line;
    std::string tail;
  };
  [[nodiscard]] Shown add(const Run& run, const Fact& fact, const std::vector<std::string>& tail);

  // Returns "failed: 15 more trials: exit code 1: ValueError: x", for the three kinds with the most failures
  // that were not printed.
  [[nodiscard]] std::vector<std::string> counted() const;

 private:
  struct Kind {
    TrialState state;
    std::string reason;  // includes the last line of the log if the log was read
    std::size_t count;
  };

  std::vector<Kind> kinds_;
};

}  // namespace combu
