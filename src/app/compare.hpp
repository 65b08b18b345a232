#pragma once
// Reads the results of runs for a comparison. Reconciles the runs, as read_run_results() does.

#include <string>
#include <vector>

#include "combu/analysis.hpp"
#include "combu/progress.hpp"
#include "combu/session.hpp"

namespace combu {

struct CompareOptions {
  std::vector<std::string> runs;          // ids; empty: the last run of the file
  std::string where;                      // a condition; empty: all trials
  std::vector<std::string> metrics;       // lists of columns, as names_in() parses them
  std::vector<std::string> over{"seed"};  // lists of params in which repeats differ
  bool is_over_given = false;             // false: params of `over` may be missing
};

struct ComparedRuns {
  std::vector<Results> runs;  // only the trials that match the condition
  CompareForm form;
};

// Prints notes about names in the condition for which no trial has a value. Throws Error:
// - the errors of read_run_results()
// - invalid, if a list of names is malformed, or if no trial has a param
// - not_found, if there is no metric to compare
[[nodiscard]] ComparedRuns read_compared(const Invocation& invocation, const CompareOptions& options,
                                         const OpenSession& open_session, Progress& progress);

}  // namespace combu
