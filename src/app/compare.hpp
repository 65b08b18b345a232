#pragma once
// Reads the results of runs for a comparison. Reconciles the runs, as read_run_results() does.

#include <string>
#include <vector>

#include "combu/analysis.hpp"
#include "combu/progress.hpp"
#include "combu/session.hpp"

namespace combu {

struct CompareOptions {
  std::vector<std::string> runs;     // ids of runs; empty: the last run of the file
  std::string where;                 // a condition; empty: all trials
  std::vector<std::string> metrics;  // lists of columns, in the form that names_in() parses
  // lists of params whose values differ among the repeats of a trial
  std::vector<std::string> over{"seed"};
  bool is_over_given = false;  // false: `over` is the default, and trials may lack its param
};

struct ComparedRuns {
  std::vector<Results> runs;  // results of the trials that match the condition
  CompareForm form;
};

// For each name in the condition, prints a note if no trial has a value for this name. Throws the errors of
// read_run_results(). Throws Error(invalid) if a list of names is malformed, or if no trial has a param that
// CompareOptions::over names. Throws Error(not_found) if no column is named and no trial reported a metric.
[[nodiscard]] ComparedRuns read_compared(const Invocation& invocation, const CompareOptions& options,
                                         const OpenSession& open_session, Progress& progress);

}  // namespace combu
