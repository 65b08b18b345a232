#pragma once
// Functions that print plans, tables, JSON lines and charts.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "combu/analysis.hpp"
#include "combu/engine.hpp"
#include "combu/outputs.hpp"
#include "combu/plan.hpp"
#include "combu/progress.hpp"
#include "combu/record.hpp"

namespace combu {

// Prints a plan as text: the numbers of trials, waves, dependencies, images and networks, then the trials of
// each wave. Long waves are shortened to fit a screen.
void print_plan(std::ostream& out, const Experiment& experiment, const Plan& plan);
// Prints the whole plan as one JSON object with the members "experiment", "file", "trials", "edges",
// "images", "networks", "waves" and "needs". An element of "images" has the form {"image", "trials"}, and an
// element of "waves" is an array of names. "needs" maps the name of each trial to an array of elements
// {"trial", "condition"}.
void print_plan_json(std::ostream& out, const Experiment& experiment, const Plan& plan);

// Limits the size of a printed table.
struct TableForm {
  // Maximum width of a line; 0: no limit. If a line is wider, free text such as names and reasons is
  // shortened with "…".
  std::size_t columns = 0;
  // Maximum number of rows; 0: no limit. If rows are left out, more_text() is printed as the last line.
  std::size_t rows = 0;

  // Returns how many of `count` rows are printed.
  [[nodiscard]] std::size_t shown(std::size_t count) const {
    return rows == 0 ? count : std::min(rows, count);
  }
};
// Returns the limits for standard output: a terminal's width and 100 rows, or no limits if it is not a
// terminal.
[[nodiscard]] TableForm standard_table();
// Returns for example "… and 4,900 more; --limit 0 shows all".
[[nodiscard]] std::string more_text(std::size_t count);
// Prints an aligned table with the columns EXPERIMENT RUN TRIAL STATE IMAGE. Rows are sorted by experiment,
// run and trial; numbers in trial names sort by value.
void print_observations(std::ostream& out, std::span<const Observation> observations,
                        const TableForm& form = {});
// Prints one JSON object for each observation, one object a line:
// {"experiment","run","trial","attempt","state","health","exit_code","image","id","created_at"}. Only the row
// limit of `form` applies, and more_text() is not printed.
void print_observations_json(std::ostream& out, std::span<const Observation> observations,
                             const TableForm& form = {});

// Prints one line for each finding, such as "fault   socket: TEXT; REMEDY". A remedy with several lines
// continues on the next lines.
void print_findings(std::ostream& out, std::span<const Finding> findings);
// Prints one JSON object for each finding, one object a line: {"kind","subject","text","remedy"}.
void print_findings_json(std::ostream& out, std::span<const Finding> findings);

// Prints a table with the columns RUN EXPERIMENT BEGAN ENDED STATE TRIALS ENGINE. Times are local.
// `columns_max` is the maximum width of a line; 0: no limit.
void print_runs(std::ostream& out, std::span<const RunRow> runs, std::size_t columns_max = 0);
// Prints one JSON object for each run, one object a line.
void print_runs_json(std::ostream& out, std::span<const RunRow> runs);
// Returns for example "12 files, 3.4 MiB".
[[nodiscard]] std::string outputs_text(const CollectionResult& collection);
// Prints the run's id and state, the number of trials in each state, and a table with the columns TRIAL STATE
// ATTEMPT RAN MEMORY CPU REASON. For a running trial, MEMORY is the current memory, and CPU is the mean
// number of cores used since the attempt began to run. For other trials, MEMORY is the peak memory and CPU is
// the CPU time of the last attempt. If the usage of all trials is unknown, the columns MEMORY and CPU are
// left out. For a single trial, the collected outputs follow the table. `now` is used to compute how long
// running trials have run.
void print_trials(std::ostream& out, const RunRow& run, std::span<const TrialRow> trials, Instant now,
                  const TableForm& form = {});
// Prints one JSON object for each trial, one object a line.
void print_trials_json(std::ostream& out, const RunRow& run, std::span<const TrialRow> trials, Instant now);

// Prints one line for each detail of a trial, for example "state      failed: exit code 1".
void print_trial(std::ostream& out, const ShownTrial& shown);
// Prints all details of a trial as one JSON object, on a single line.
void print_trial_json(std::ostream& out, const ShownTrial& shown);

// Prints the run's id, its duration, and a table with a row for each AttemptPart. The columns are MEDIAN, 90
// % (the 90th percentile), MOST and SUM. `now` is used to compute the duration of a run that has not ended.
void print_times(std::ostream& out, const RunEntry& run, std::span<const TimedAttempt> attempts, Instant now);
// Prints a table with a column for each AttemptPart. `attempts` must belong to one trial, and must not be
// empty.
void print_attempt_times(std::ostream& out, std::span<const TimedAttempt> attempts,
                         const TableForm& form = {});
// Prints one JSON object for each attempt, one object a line, with the fields "trial" and "attempt". The
// fields "needs", "retry", "place", "combu", "creating", "starting", "running" and "home" are the durations
// of the parts in seconds. Only the row limit of `form` applies, and more_text() is not printed.
void print_attempt_times_json(std::ostream& out, std::span<const TimedAttempt> attempts,
                              const TableForm& form = {});

// event_line() returns an event as text, event_json() as a JSON object. The text has the form "2026-01-31
// 12:00:00.250 solver-a-1 #1 running", with local time, and is shortened to `columns_max` columns. The object
// is {"time", "trial", "attempt", "state", "exit_code", "cause", "reason", "files", "bytes"}.
[[nodiscard]] std::string event_line(const EventEntry& event, std::size_t columns_max = 0);
[[nodiscard]] std::string event_json(const EventEntry& event);

// The form in which print_results() shows results. find_column() defines the names of columns.
// print_results() throws Error(invalid) for an unknown name.
struct ResultsForm {
  // names of columns; empty: the trial, params whose values differ between trials, state, duration and
  // metrics
  std::vector<std::string> columns;
  std::string sort;      // name of the column to sort by; empty: the order of the experiment file
  bool reverse = false;  // true: the order is reversed, but rows without a value stay last
  // print_results_json() uses only the row limit, and does not print more_text()
  TableForm table = {};
};
// Prints a table. Numbers are rounded and aligned at their decimal points. Params with the same value in all
// trials are printed above the table.
void print_results(std::ostream& out, const Results& results, const ResultsForm& form);
// Prints one JSON object for each trial, one object a line. Numbers are printed in full, but NaN and infinite
// numbers are null.
void print_results_json(std::ostream& out, const Results& results, const ResultsForm& form);

// Compares the first run with every later run in `runs`. If there is only one run, prints statistics of the
// run's repetitions. Only trials that succeeded are compared. Trials are paired if their params are equal;
// trials without params are paired by name. Params in `form.over` need not be equal, nor params whose value
// is constant within each run but differs between runs. Below each table, notes explain which trials or
// params were left out.
void print_comparison(std::ostream& out, std::span<const Results> runs, const CompareForm& form,
                      const TableForm& table = {});
// Prints one JSON object for each metric and each Pair of trials, one object a line. Returns notes about
// trials or params that were left out.
[[nodiscard]] std::vector<std::string> print_comparison_json(std::ostream& out, std::span<const Results> runs,
                                                             const CompareForm& form,
                                                             const TableForm& table = {});

struct ChartSurface {
  std::size_t columns = 80;
  std::size_t rows = 24;
  bool utf8 = true;  // true: draws braille dots; false: draws ASCII letters
  bool colours = false;
};
// Returns the size and the capabilities of standard output.
[[nodiscard]] ChartSurface standard_surface();
// Both functions print a chart. If the labels in Chart::x_words would overlap, only every n-th label is
// printed, and the functions return a note about the missing labels. Otherwise the functions return "".
std::string print_chart(std::ostream& out, const Chart& chart, const ChartSurface& surface);
std::string print_chart_svg(std::ostream& out, const Chart& chart);

}  // namespace combu
