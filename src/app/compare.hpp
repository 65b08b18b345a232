#pragma once
// Runs whose results are compared. Reconciles, as read_run_results() does.

#include <string>
#include <vector>

#include "combu/analysis.hpp"
#include "combu/progress.hpp"
#include "combu/session.hpp"

namespace combu {

struct CompareOptions {
  std::vector<std::string> runs;          // ids; empty: the last run of the file
  std::string where;                      // a condition; empty: all trials
  std::vector<std::string> metrics;       // lists of columns, as names_in() takes them
  std::vector<std::string> over{"seed"};  // lists of params in which repeats differ
  bool is_over_given = false;             // false: the params of `over` need not be there
};

struct ComparedRuns {
  std::vector<Results> runs;  // the trials of which the condition is so
  CompareForm form;
};

// Notes names in the condition that no trial has a value of. Throws Error: those of read_run_results();
// invalid for a list of names that makes no sense, or a param that no trial has; not_found if there is no
// metric to compare.
[[nodiscard]] ComparedRuns read_compared(const Invocation& invocation, const CompareOptions& options,
                                         const OpenSession& open_session, Progress& progress);

}  // namespace combu
