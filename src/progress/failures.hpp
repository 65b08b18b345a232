#pragma once
// The failures of a run while it goes on: of equal ones two are shown, and the others counted.

#include <cstddef>
#include <string>
#include <vector>

#include "combu/run.hpp"

namespace combu {

class FailureFeed {
 public:
  // A failure as it is shown: one line, and below it the last lines of its log. Both empty if two equal ones
  // have been shown before.
  struct Shown {
    std::string line;
    std::string tail;
  };
  [[nodiscard]] Shown add(const Run& run, const Fact& fact, const std::vector<std::string>& tail);

  // "failed: 15 more trials: exit code 1: ValueError: x", a line for each of the three kinds of which most
  // were not shown.
  [[nodiscard]] std::vector<std::string> counted() const;

 private:
  struct Kind {
    TrialState state;
    std::string reason;  // with the last line of the log, where that was read
    std::size_t count;
  };

  std::vector<Kind> kinds_;
};

}  // namespace combu
