#pragma once
// What a person, or a program, reads on standard output: plans, tables, JSON lines, charts; and the last
// lines of a run.

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

// Waves and counts of a plan, for people; long waves are shortened to fit a screen.
void print_plan(std::ostream& out, const Experiment& experiment, const Plan& plan);
// The same, whole, as one JSON object: {"experiment", "file", "trials", "edges", "images":
// [{"image","trials"}], "networks": […], "waves": [[name, …], …], "needs": {name: [{"trial", "condition"}]}}.
void print_plan_json(std::ostream& out, const Experiment& experiment, const Plan& plan);

// How much of a table is printed.
struct TableForm {
  std::size_t columns = 0;  // no line is wider: names, reasons and their like are cut, with "…"; 0: none is
  std::size_t rows = 0;     // most; 0: all. A last line, more_text(), counts those that are left out

  [[nodiscard]] std::size_t shown(std::size_t count) const {
    return rows == 0 ? count : std::min(rows, count);
  }
};
// For standard output: a terminal's width, and at most 100 rows; else all of it.
[[nodiscard]] TableForm standard_table();
// "… and 4,900 more; --limit 0 shows all"
[[nodiscard]] std::string more_text(std::size_t count);
// A table with aligned columns: EXPERIMENT RUN TRIAL STATE IMAGE. Sorted by experiment, run, trial (numbers
// in names by value).
void print_observations(std::ostream& out, std::span<const Observation> observations,
                        const TableForm& form = {});
// One JSON object a line:
// {"experiment","run","trial","attempt","state","health","exit_code","image","id","created_at"}. `form`: only
// its rows count, and nothing is said of the rest.
void print_observations_json(std::ostream& out, std::span<const Observation> observations,
                             const TableForm& form = {});

// A table: RUN EXPERIMENT BEGAN ENDED STATE TRIALS ENGINE; times are local. `columns_max`: as in TableForm.
void print_runs(std::ostream& out, std::span<const RunRow> runs, std::size_t columns_max = 0);
// One JSON object a line.
void print_runs_json(std::ostream& out, std::span<const RunRow> runs);
// "12 files, 3.4 MiB"
[[nodiscard]] std::string taken_text(const CollectionResult& taken);
// Prints the run's id, state and counts, and a table: TRIAL STATE ATTEMPT RAN MEMORY CPU REASON. MEMORY and
// CPU of a running trial are the memory that it has now and how many cores it has used on average, of another
// one the most memory and the processor time that its last attempt was seen with; both are left out if none
// is known. For a single trial it also prints which outputs are collected. `now` is the end of the time that
// running trials have run.
void print_trials(std::ostream& out, const RunRow& run, std::span<const TrialRow> trials, Instant now,
                  const TableForm& form = {});
// One JSON object a line.
void print_trials_json(std::ostream& out, const RunRow& run, std::span<const TrialRow> trials, Instant now);

// A trial's page, a line for each of its facts: "state      failed: exit code 1".
void print_trial(std::ostream& out, const ShownTrial& shown);
// All that is known of it, as one JSON object on a line.
void print_trial_json(std::ostream& out, const ShownTrial& shown);

// Prints the run's id, how long it took, and a table with a row for each AttemptPart of its attempts: MEDIAN,
// 90 % (the 90th percentile), MOST, SUM. `now` is the end of the time that a running run has taken.
void print_times(std::ostream& out, const RunEntry& run, std::span<const TimedAttempt> attempts, Instant now);
// A table with a column for each AttemptPart. `attempts`: of one trial, at least one.
void print_attempt_times(std::ostream& out, std::span<const TimedAttempt> attempts,
                         const TableForm& form = {});
// One JSON object a line: {"trial","attempt"}, and the parts in seconds: "needs", "retry", "place", "combu",
// "creating", "starting", "running", "home". `form`: only its rows count, and nothing is said of the rest.
void print_attempt_times_json(std::ostream& out, std::span<const TimedAttempt> attempts,
                              const TableForm& form = {});

// "2026-01-31 12:00:00.250 solver-a-1 #1 running", in local time, cut as by fit_line(); and the same as a
// JSON object: {"time", "trial", "attempt", "state", "exit_code", "cause", "reason", "files", "bytes"}.
[[nodiscard]] std::string event_line(const EventEntry& event, std::size_t columns_max = 0);
[[nodiscard]] std::string event_json(const EventEntry& event);

// Columns are called like a field of the trial ("state", "seconds"), a param or a metric, the first of these
// that there is, "params.NAME" and "metrics.NAME" where that is another one; a metric's last value is meant,
// or by "NAME.least", "NAME.greatest" and "NAME.points" what its summary has. An unknown one is
// Error(invalid).
struct ResultsForm {
  std::vector<std::string> columns;  // none: the trial, params that differ, state, time and metrics
  std::string sort;                  // a column; empty: the experiment's order
  bool reverse = false;              // the greatest first; what has no value is always last
  TableForm table = {};              // with JSON only its rows count, and nothing is said of the rest
};
// A table: numbers short, one below the other at their points. What all have in common stands above it.
void print_results(std::ostream& out, const Results& results, const ResultsForm& form);
// One JSON object a line, whole numbers; null for what is no number.
void print_results_json(std::ostream& out, const Results& results, const ResultsForm& form);

// The first run against each other one: trials that have succeeded, paired by their params (by their names
// where they have none) but for those of `over`, and those that are one value in each run, where they are
// there at all, and differ between runs. Of one run alone its repeats. Says what it has left out.
void print_comparison(std::ostream& out, std::span<const Results> runs, const CompareForm& form,
                      const TableForm& table = {});
// One JSON object a line for each metric and pair. Gives what it has left out, for people.
[[nodiscard]] std::vector<std::string> print_comparison_json(std::ostream& out, std::span<const Results> runs,
                                                             const CompareForm& form,
                                                             const TableForm& table = {});

struct ChartSurface {
  std::size_t columns = 80;
  std::size_t rows = 24;
  bool utf8 = true;  // braille dots; else letters
  bool colours = false;
};
// The standard output's own.
[[nodiscard]] ChartSurface standard_surface();
// Labels of x_words never overlap. These return a note if not all of them have room, for a person; else "".
std::string print_chart(std::ostream& out, const Chart& chart, const ChartSurface& surface);
std::string print_chart_svg(std::ostream& out, const Chart& chart);

}  // namespace combu
