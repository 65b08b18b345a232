#pragma once
// What a person, or a program beside combu, sees: progress on one stream, tables and JSON lines on the other.

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "combu/base.hpp"
#include "combu/engine.hpp"
#include "combu/outputs.hpp"
#include "combu/plan.hpp"
#include "combu/record.hpp"
#include "combu/run.hpp"

namespace combu {

class Telemetry;  // combu/telemetry.hpp

enum class ProgressForm { automatic, tty, plain, json, quiet };
// "auto", "tty", "plain", "json", "quiet". Throws Error(invalid).
[[nodiscard]] ProgressForm parse_progress_form(std::string_view text);

// Progress of one command, on stderr. Methods may be called from several threads.
//  tty:   one block, painted over at most ten times a second, never higher or wider than the terminal; lines
//  that stay
//         (failures, notes) scroll above it
//  plain: one line for each thing worth keeping, and a count every few seconds while something changes
//  json:  one JSON object a line: {"time": …, "event": …, …}
//  quiet: only what failed
class Progress : public ProgressListener {
 public:
  // The phase before a run: "evaluating", "checking". Replaced by the next one.
  virtual void phase(std::string_view text) = 0;
  virtual void preparation(const Preparation& preparation) = 0;
  // `count` of `total` done, for kill and stop.
  virtual void counted(std::string_view verb, std::size_t count, std::size_t total) = 0;
  // A line that stays: a container that made room, a folder that was made, an engine that is away.
  virtual void note(std::string_view line) = 0;
  void remark(const std::string& line) final { note(line); }
  virtual void error(std::string_view line) = 0;
  // The run whose facts and snapshots follow; it outlives this.
  virtual void begin(const Run& run) = 0;
  // Removes the block, so that other output can follow. Called by the destructor, and safe from a signal's
  // thread.
  virtual void end() = 0;
};
// Asks the environment for NO_COLOR and TERM: call it while the program has one thread.
[[nodiscard]] std::unique_ptr<Progress> make_progress(ProgressForm form, std::FILE* stream);

// The same lines as json has, each with its line end, and its event's name.
[[nodiscard]] std::unique_ptr<Progress> make_json_progress(
    std::function<void(std::string_view event, std::string_view line)> write);

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
// Text that others wrote, as one line of a terminal with so many columns; 0: it is not cut.
[[nodiscard]] std::string fit_line(std::string_view line, std::size_t columns_max);

// A table with aligned columns: EXPERIMENT RUN TRIAL STATE IMAGE. Sorted by experiment, run, trial (numbers
// in names by value).
void print_sightings(std::ostream& out, std::span<const Sighting> sightings, const TableForm& form = {});
// One JSON object a line:
// {"experiment","run","trial","attempt","state","health","exit_code","image","id","created_at"}. `form`: only
// its rows count, and nothing is said of the rest.
void print_sightings_json(std::ostream& out, std::span<const Sighting> sightings, const TableForm& form = {});

// A run, and how many of its trials are in which state.
struct RunRow {
  RunEntry entry;
  std::string state;  // "running", "left running", "interrupted", "ended"; "not on record"
  TrialCounts counts{};
};
// A table: RUN EXPERIMENT BEGAN ENDED STATE TRIALS ENGINE; times are local. `columns_max`: as in TableForm.
void print_runs(std::ostream& out, std::span<const RunRow> runs, std::size_t columns_max = 0);
// One JSON object a line.
void print_runs_json(std::ostream& out, std::span<const RunRow> runs);
// "3 waiting, 12 succeeded"
[[nodiscard]] std::string counts_text(const TrialCounts& counts);

// A trial by the record, and by the engine where that knows more.
struct TrialRow {
  TrialEntry entry;  // attempt 0: it stands for several trials
  Health health = Health::none;
  Instant created_at{};             // the epoch when not told
  std::optional<Usage> usage = {};  // of a running trial, now; nullopt: not known
};
// "12 files, 3.4 MiB"
[[nodiscard]] std::string taken_text(const Taken& taken);
// Prints the run's id, state and counts, and a table: TRIAL STATE ATTEMPT RAN MEMORY CPU REASON. MEMORY and
// CPU of a running trial are the memory that it has now and how many cores it has used on average, of another
// one the most memory and the processor time that its last attempt was seen with; both are left out if none
// is known. For a single trial it also prints which outputs are collected. `now` is the end of the time that
// running trials have run.
void print_trials(std::ostream& out, const RunRow& run, std::span<const TrialRow> trials, Instant now,
                  const TableForm& form = {});
// One JSON object a line.
void print_trials_json(std::ostream& out, const RunRow& run, std::span<const TrialRow> trials, Instant now);

// "2026-01-31 12:00:00.250 solver-a-1 #1 running", in local time, cut as by fit_line(); and the same as a
// JSON object: {"time", "trial", "attempt", "state", "exit_code", "cause", "reason", "files", "bytes"}.
[[nodiscard]] std::string event_line(const EventEntry& event, std::size_t columns_max = 0);
[[nodiscard]] std::string event_json(const EventEntry& event);

// A trial that failed, was stopped or was blocked.
struct Failure {
  std::string_view trial;
  TrialState state = TrialState::failed;
  std::string reason;
  std::string_view root = {};  // of a blocked trial: the trial at the head of the chain of causes
};
struct FailureGroup {
  TrialState state = TrialState::failed;
  std::string reason;
  std::vector<std::string_view> trials;
};
// Equal failures become one group, however many attempts there were, and so do trials that one root blocks.
// In the order of the first of each, blocked ones last.
[[nodiscard]] std::vector<FailureGroup> group_failures(std::span<const Failure> failures);
// "5 trials (forest-s[0-4])"; of one its name.
[[nodiscard]] std::string trials_text(std::span<const std::string_view> trials);
// "failed: 5 trials (forest-s[0-4]): exit code 1: ValueError: x"
[[nodiscard]] std::string group_line(const FailureGroup& group);
// The reason behind the word for the state: "by alice with `combu stop`" of a trial that was stopped by
// alice.
[[nodiscard]] std::string_view reason_beside(TrialState state, std::string_view reason);
// The reason and what the last line of the log adds to it: "exit code 1: ValueError: x", "exit code 127:
// command not found: pyhton".
[[nodiscard]] std::string with_last_line(std::string_view reason, std::optional<int> exit_code,
                                         std::string_view last_line);
// The last line of `text` that is not blank, for a terminal, at most 200 columns of it; empty: there is none.
[[nodiscard]] std::string last_line_of(std::string_view text);

// The last line of a trial's log; empty: it has none, or it is not known.
using LastLine = std::function<std::string(const std::string& trial, int attempt)>;

// Prints the last lines of a run on `progress`: equal failures as one line (at most 20, then a number),
// counts, and what to type next. `engine`: as for command_line().
void print_outcome(Progress& progress, const Run& run, const Outcome& outcome, Until until,
                   std::string_view engine, const LastLine& last_line = {});

// "2026-01-31 12:00:00", in local time; and for programs "2026-01-31T12:00:00.250Z".
[[nodiscard]] std::string local_time(Instant instant);
[[nodiscard]] std::string rfc3339(Instant instant);

// A text of several lines that others wrote (an error with its stack), for a terminal: without control
// characters and escape sequences, in valid UTF-8, each line with its end.
[[nodiscard]] std::string clean_lines(std::string_view text);

// Makes text with colours fit for a terminal: keeps ECMA-48's SGR sequences (`ESC [ 31 m`), carriage returns,
// newlines and tabs, and escapes every other control character and byte that is not UTF-8. Resets colours
// before each newline and at the end.
class ColouredText {
 public:
  // `prefix` (text without control characters) is repeated behind each carriage return that other text
  // follows on the same line.
  explicit ColouredText(std::string_view prefix = {}) : prefix_(prefix) {}

  // `piece` continues the text of the last call. A character or a sequence that is not complete is held back.
  [[nodiscard]] std::string add(std::string_view piece);
  // What was held back, and the reset of the last colour.
  [[nodiscard]] std::string end();

 private:
  // Moves complete text from `held_` to `out`; all of it if `is_end`.
  void move_to(std::string& out, bool is_end);
  void reset(std::string& out);

  std::string prefix_;
  std::string held_;
  bool is_coloured_ = false;
};

// As one word of a POSIX shell: quoted where it has to be. Holds no control character but newline and tab,
// and is UTF-8.
[[nodiscard]] std::string shell_word(std::string_view text);

// What a person types for `command` ("kill") of this experiment: "combu -f FILE kill", or "combu kill
// --experiment NAME" of one that was read from standard input. `engine`: the address that was given by
// --engine, empty when there was none.
[[nodiscard]] std::string command_line(const Experiment& experiment, std::string_view command,
                                       std::string_view engine);

// What a person types to go on with the run. `engine`: as for command_line().
[[nodiscard]] std::string resume_line(const RunId& run, std::string_view engine);

// By what conditions choose a trial on record: "state", "exit_code", "memory_peak", …; nullopt: it has none,
// or there is nothing of this name. `wanted`: what it is compared with. Throws Error(invalid) for a state
// that there is not.
[[nodiscard]] std::optional<std::string> trial_value(const TrialEntry& entry, std::string_view name,
                                                     std::string_view wanted = {});

// ---- Results: what a run's trials were given, and the numbers that they have told

// Nothing, a number (that may be none), or a text: a string, or another value's JSON.
using Value = std::variant<std::monostate, double, std::string>;

// What a trial's newest attempt has told of a metric, in short; not a number where none of its values is one.
struct Told {
  std::size_t points = 0;  // 0: it has not told it
  double last = 0;
  double least = 0;
  double greatest = 0;
};

struct ResultRow {
  TrialEntry trial;
  std::vector<Value> params;  // by Results::params
  std::vector<Told> metrics;  // by Results::metrics
};

struct Results {
  RunEntry run;
  std::vector<std::string> params;  // by name, as the next
  std::vector<std::string> metrics;
  std::vector<ResultRow> rows;     // in the experiment's order
  Telemetry* telemetry = nullptr;  // has the points; nullptr: there are none
};
// `telemetry`: the run's, where it has any; it outlives the results.
[[nodiscard]] Results read_results(Record& record, Telemetry* telemetry, RunEntry run);

// The column that is likely meant by a name that none has.
[[nodiscard]] std::optional<std::string> nearest_column(const Results& results, std::string_view name);

// Keeps the trials of which the condition is so. Gives the names in it that no trial has a value of.
std::set<std::string> choose_results(Results& results, const Filter& where);

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

struct CompareForm {
  std::vector<std::string> metrics;  // columns; none: the last values of all metrics
  std::vector<std::string> over;     // params in which repeats differ
  TableForm table = {};              // rows of each metric; with JSON nothing is said of the rest
};
// The first run against each other one: trials that have succeeded, paired by their params (by their names
// where they have none) but for those of `over`, and those that are one value in each run, where they are
// there at all, and differ between runs. Of one run alone its repeats. Says what it has left out.
void print_comparison(std::ostream& out, std::span<const Results> runs, const CompareForm& form);
// One JSON object a line for each metric and pair. Gives what it has left out, for people.
[[nodiscard]] std::vector<std::string> print_comparison_json(std::ostream& out, std::span<const Results> runs,
                                                             const CompareForm& form);

enum class Scale { linear, logarithmic };
struct ChartForm {
  std::string metric;  // a column, when `x` is one
  std::string by;  // a column: a curve for each value of it; empty: for each trial, or one if they are many
  std::string x;   // a column, whose points are trials; empty: curves over the metric's steps
  Scale x_scale = Scale::linear;
  Scale y_scale = Scale::linear;
};
struct Chart {
  struct Point {
    double x = 0;
    double y = 0;
    double spread = 0;   // half of the 95 % interval of the mean that y is; 0: of one trial alone
    bool apart = false;  // no line comes to it from the one before: a gap
  };
  struct Series {
    std::string title;
    std::vector<Point> points;
  };
  std::string x_title;
  std::string y_title;
  Scale x_scale = Scale::linear;
  Scale y_scale = Scale::linear;
  std::vector<std::string> x_words;  // x is a place among these, where it is no number
  bool joined = true;                // curves; else each point is for itself
  std::vector<Series> series;
  std::vector<std::string> notes;  // what is not in it, and why
};
// Throws Error(not_found) when there is nothing to draw.
[[nodiscard]] Chart make_chart(const Results& results, const ChartForm& form);

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

// What other programs read.

// Whether `path` is, or will be, a file that can be replaced; else it is a pipe, a device, or what a process
// has open (/dev/stdout).
[[nodiscard]] bool is_file_to_be(const std::string& path);
// Puts what `write` writes in place of what the file held, in one step and when all of it is there. What is
// not a file takes it at once. Throws Error(refused).
void write_file(const std::string& path, const std::function<void(std::ostream&)>& write);

// A row for each trial: run, trial, fields, params, metrics. What is no number is nan, inf or -inf (RFC 4180
// and what pandas and DuckDB read), in JSON null. No two columns have names that are the same but for upper
// and lower case: a param or metric whose name is taken is "params.NAME" or "metrics.NAME", or
// "params.NAME_2".
void export_csv(std::ostream& out, std::span<const Results> runs);
void export_json(std::ostream& out, std::span<const Results> runs);
// A row for each point: run, trial, metric, step, time, value.
void export_points_csv(std::ostream& out, std::span<const Results> runs);
void export_points_json(std::ostream& out, std::span<const Results> runs);
// A new SQLite file in place of what there is at `path`, which is no pipe or device: runs, trials, params,
// metrics, points. Throws Error.
void export_sqlite(const std::string& path, std::span<const Results> runs);

}  // namespace combu
