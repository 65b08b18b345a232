#pragma once
// Rows for tables of runs and trials, all details of a single trial, and the results of runs. Results have
// one row for each trial and columns that are found by name. The results of several runs can be compared,
// with means and confidence intervals. Results can also be drawn as charts.

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "combu/engine.hpp"
#include "combu/record.hpp"
#include "combu/telemetry.hpp"

namespace combu {

// ---- Rows of runs and trials

// A run and the number of its trials in each state.
struct RunRow {
  RunEntry entry;
  std::string state;  // "running", "left running", "interrupted", "ended" or "not on record"
  TrialCounts counts{};
};

// The record's data about a trial, and the data that the engine currently reports about the trial, if any.
struct TrialRow {
  // if entry.attempt is 0, this row describes a group of trials with equal failures (FailureGroup)
  TrialEntry entry;
  Health health = Health::none;
  Instant created_at{};             // when the container was created; the epoch if unknown
  std::optional<Usage> usage = {};  // current usage of a running trial; nullopt: unknown
};

// A trial of a run, with all its data from the record and the telemetry database.
struct ShownTrial {
  const RunEntry& run;
  // The run that executed the trial: `run`, or the earlier run from which a cached trial was reused. nullopt:
  // the record does not contain this earlier run.
  std::optional<RunEntry> ran_in;
  const Trial& trial;
  TrialEntry entry;
  std::vector<AttemptEntry> attempts;
  std::optional<KnownEntry> known;
  std::vector<std::string> inputs;  // digests of the trial's inputs; empty if unknown
  std::vector<MetricSummary> metrics;
  std::optional<StoredLog> log;
  std::string outputs;          // folder or bucket of the collected outputs; empty: there are none
  std::string partial_outputs;  // folder or bucket of outputs that were collected while an attempt still ran

  [[nodiscard]] bool is_equal() const { return known && !known->equal_trial.empty(); }
  // Number of metric points that were counted but not stored, because combu stores at most k_kept_points_max
  // points of an attempt.
  [[nodiscard]] std::size_t points_dropped() const {
    std::size_t points = 0;
    for (const MetricSummary& metric : metrics) points += metric.points;
    return points - std::min(points, k_kept_points_max);
  }
  [[nodiscard]] std::string digest_of(std::size_t input) const {
    return input < inputs.size() ? inputs[input] : "";
  }
};

// Returns the trial's field `name`, such as "state" or "memory_peak", for a filter condition that compares
// the field with `wanted`. For "state", returns the state of the trial, or the state of its container if
// `wanted` is a state of containers (Phase). For "gpus", returns `wanted` if `wanted` is one of the trial's
// GPUs, otherwise all GPUs of the trial. Returns nullopt if there is no such field, or if the trial has no
// value for the field. Throws Error(invalid) if `name` is "state" and `wanted` is neither a state nor a
// pattern.
[[nodiscard]] std::optional<std::string> trial_value(const TrialEntry& entry, std::string_view name,
                                                     std::string_view wanted = {});

// ---- Results: the params of a run's trials, and the metrics that the trials reported

// A value is absent, a number (may be NaN or infinite), or a text. A param that is neither a number nor a
// string is stored as its JSON text.
using Value = std::variant<std::monostate, double, std::string>;

// Summary of one metric of a trial's newest attempt. `last`, `least` and `greatest` are NaN if all values of
// the metric are NaN.
struct TrialMetric {
  std::size_t points = 0;  // 0: the trial did not report this metric
  double last = 0;
  double least = 0;
  double greatest = 0;
};

struct ResultRow {
  TrialEntry trial;
  std::vector<Value> params;         // same order as Results::params
  std::vector<TrialMetric> metrics;  // same order as Results::metrics
};

struct Results {
  RunEntry run;
  std::vector<std::string> params;  // sorted, like `metrics`
  std::vector<std::string> metrics;
  std::vector<ResultRow> rows;             // in the order of the experiment file
  std::shared_ptr<Telemetry> telemetry{};  // database of the metric points; nullptr: there are no points
};
// Reads the results of `run`. `telemetry` is the run's telemetry database, or nullptr if the run has no such
// database. Throws Error if the record or the telemetry database cannot be read.
[[nodiscard]] Results read_results(Record& record, std::shared_ptr<Telemetry> telemetry, RunEntry run);

// Suggests a column for a misspelled name. Returns nullopt if `name` is a column, or if no column has a
// similar name.
[[nodiscard]] std::optional<std::string> nearest_column(const Results& results, std::string_view name);

// Removes the rows that do not match `where`. Returns the names that occur in `where`, but have no value in
// any trial.
std::set<std::string> choose_results(Results& results, const Filter& where);

// Formats a value: short_text() rounds numbers for display, whole_text() prints numbers in full. Both
// functions return "" if there is no value.
[[nodiscard]] std::string short_text(const Value& value);
[[nodiscard]] std::string whole_text(const Value& value);
// Returns the value as JSON, which is "null" for an absent value, NaN and infinite numbers.
[[nodiscard]] std::string json_value(const Value& value);

// ---- Columns: fields of a trial ("state", "seconds"), params and metrics, found by name

struct Column {
  enum class Of { field, param, metric };
  enum class Part { last, least, greatest, points };
  Of of = Of::field;
  std::size_t index = 0;  // index in Results::params or Results::metrics
  Part part = Part::last;
  std::string name;  // the name by which find_column() finds this column

  bool operator==(const Column&) const = default;
};

// Returns the position of `name` in the sorted `names`, or nullopt if `names` does not contain `name`.
[[nodiscard]] std::optional<std::size_t> index_of(const std::vector<std::string>& names,
                                                  std::string_view name);

// Finds a column by name. If a field, a param and a metric have the same name, the name means the field. If
// only a param and a metric have the same name, the name means the param. "params.NAME" and "metrics.NAME"
// name a param or a metric explicitly. "NAME.least", "NAME.greatest", "NAME.points" and "NAME.last" name a
// part of a metric's summary; NAME alone means the last value. Returns nullopt if there is no such column.
[[nodiscard]] std::optional<Column> find_column(const Results& results, std::string_view name);
// Like find_column(), but throws Error(invalid) if there is no such column. The error message begins with
// `subject`.
[[nodiscard]] Column expect_column(const Results& results, std::string_view name, std::string_view subject);

// Splits lists such as "a,b" or "'a,b',c" into names of columns or params. The lists are the values of the
// command line option `option`. Throws Error(invalid) if a name is empty or repeated, or if a quoted name
// does not end with its quote.
[[nodiscard]] std::vector<std::string> names_in(const std::vector<std::string>& lists,
                                                std::string_view option);

// True if `name` is a field of a trial.
[[nodiscard]] bool is_field(std::string_view name);

// field_column() returns the column of the field `name`; is_field(name) must be true. The other two functions
// return the column of a param or metric. `index` is its index in Results::params or Results::metrics.
[[nodiscard]] Column field_column(std::string_view name);
[[nodiscard]] Column param_column(const Results& results, std::size_t index);
[[nodiscard]] Column metric_column(const Results& results, std::size_t index);

// Returns the value of a trial in a column, or an empty Value if the trial has no value there.
[[nodiscard]] Value value_in(const ResultRow& row, const Column& column);

// Returns the duration of the trial's last attempt; if the attempt still runs, its duration until `now`.
// Returns nullopt if the attempt did not run or if the duration is unknown.
[[nodiscard]] std::optional<Seconds> time_of(const TrialEntry& entry, Instant now);

// Returns for each param whether all trials have the same value of the param. Returns false for each param if
// there are fewer than two trials.
[[nodiscard]] std::vector<bool> params_shared(const Results& results);

// ---- Times: how an attempt's time divides into parts

// The parts of an attempt's total duration, in chronological order. This duration begins when the trial
// begins to wait for the attempt, and ends when the outputs are collected. An attempt has at most one of
// `needs` and `retry`.
enum class AttemptPart {
  needs,  // the trial waits for its dependencies
  retry,  // the trial waits for the end of the pause before a retry
  place,  // the trial is ready and waits for slots
  // the time that combu itself takes for the start: from the start command to the beginning of `running`,
  // minus `creating` and `starting`
  combu,
  creating,  // the engine creates the container
  starting,
  running,
  collecting,  // collecting outputs
};
inline constexpr std::size_t k_attempt_part_count = 8;
// Durations, indexed by AttemptPart; nullopt: the attempt had no such part, or the duration is unknown.
using AttemptTimes = std::array<std::optional<Seconds>, k_attempt_part_count>;

struct TimedAttempt {
  AttemptEntry entry;
  AttemptTimes times;
};
// Computes the duration of each part of each attempt. `attempts` must be all attempts of `run` or all
// attempts of one trial, in the order of Record::attempts().
[[nodiscard]] std::vector<TimedAttempt> times_of(std::vector<AttemptEntry> attempts, const RunEntry& run);

// Statistics of the durations that one part has in several attempts.
struct PartTimes {
  Seconds median{0};
  Seconds most_of_90_percent{0};  // 90th percentile
  Seconds most{0};
  Seconds sum{0};
};
// Statistics, indexed by AttemptPart; nullopt: no attempt has this part.
using TimesByPart = std::array<std::optional<PartTimes>, k_attempt_part_count>;
[[nodiscard]] TimesByPart times_by_part(std::span<const TimedAttempt> attempts);

// The number of attempts by which hints_of() judges.
inline constexpr std::size_t k_hint_attempts_min = 200;
// Returns hints for the user, judged by the attempts of one run of this experiment: k_hint_attempts_min short
// attempts in containers of their own would be faster with `worker`; attempts of more than a minute gain
// nothing from it. Ignores services and trials with ports or a healthcheck, which cannot have `worker`.
[[nodiscard]] std::vector<std::string> hints_of(const Experiment& experiment,
                                                std::span<const TimedAttempt> attempts);

// ---- Statistics: means with 95 % confidence intervals by Student's t
//
// The formulas are in the NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.5.2 (interval of a mean) and
// 1.3.5.3 (difference of two means).

// Statistics of some values. The confidence interval of the mean is mean ± half. `deviation` is the sample
// standard deviation (divisor n - 1). If there are fewer than two values, `half` and `deviation` are NaN.
struct Sample {
  std::size_t count = 0;
  double mean = 0;
  double deviation = 0;
  double half = 0;
};
[[nodiscard]] Sample sample_of(std::span<const double> values);

// The method that computed the confidence interval of a difference.
enum class Pairing {
  none,    // no interval, because one of the samples has fewer than two values
  paired,  // the interval was computed from the differences of matching values
  welch,   // Welch's t interval for the difference of two means; the samples may differ in variance
};
[[nodiscard]] std::string_view to_string(Pairing pairing);

struct Difference {
  double mean = 0;
  double half = 0;  // half of the confidence interval; NaN if there is no interval
  Pairing pairing = Pairing::none;
};
// Both functions return the mean of `other` minus the mean of `one`, with the confidence interval of this
// difference. The function paired_difference() matches values by index, so both spans must have the same
// size.
[[nodiscard]] Difference paired_difference(std::span<const double> one, std::span<const double> other);
[[nodiscard]] Difference welch_difference(const Sample& one, const Sample& other);

// Returns the 0.975 quantile of Student's t distribution. `freedom` is the number of degrees of freedom,
// which need not be an integer. Returns NaN if `freedom` is not above 0.
[[nodiscard]] double student_t(double freedom);

// ---- Comparison of runs

struct CompareForm {
  std::vector<std::string> metrics;  // columns to compare; empty: the last values of all metrics
  std::vector<std::string> over;     // params by which repetitions of a trial differ, such as a seed
};
// Matching trials of several runs, which compare() compares with one another. The trials of a pair have equal
// params, except for the params in `over`.
struct Pair {
  std::vector<Value> params;  // same order as PairTable::params
  // name of the paired trials if they have no params; empty if they have params
  std::string trial;
  // the values of each run; Sample::count is 0 if the run has no value
  std::vector<Sample> samples;
  std::vector<Difference> differences{};  // for each run after the first: its difference from the first run
};

struct PairTable {
  std::string metric;               // name of the column
  std::vector<std::string> params;  // the params that tell one row of the table from another
  bool by_name = false;             // true if at least one pair has trials without params
  std::vector<std::pair<std::string, Value>> shared;  // params with the same value in all pairs
  // the pairs with values from at least two runs; all pairs if only one run is given
  std::vector<Pair> pairs;
  // for each run after the first: its difference from the first run, computed from the means of all pairs
  std::vector<Difference> overall;
  // number of pairs from which each element of `overall` is computed
  std::vector<std::size_t> overall_count;
  std::vector<std::string> notes;  // notes for the user, for example about values that the table omits
};

// Returns one table for each metric. Throws Error(invalid) if a column of `form.metrics` exists in no run.
[[nodiscard]] std::vector<PairTable> compare(std::span<const Results> runs, const CompareForm& form);

// ---- Charts

enum class Scale { linear, logarithmic };
struct ChartForm {
  std::string metric;  // the column to draw, which must be a metric if `x` is empty
  // If `by` names a column, trials with the same value in the column form one curve or series. If `by` is
  // empty, each trial has its own curve. If there are more than 10 trials, one curve shows their mean
  // instead.
  std::string by;
  // If `x` names a column for the x axis, each trial is one point. If `x` is empty, the chart has curves over
  // the steps of the metric.
  std::string x;
  Scale x_scale = Scale::linear;
  Scale y_scale = Scale::linear;
};
struct Chart {
  struct Point {
    double x = 0;
    double y = 0;
    double spread = 0;   // half of the 95 % interval of the mean `y`; 0 if only one trial has a value
    bool apart = false;  // true: the curve has a gap, not a line, between the previous point and this point
  };
  struct Series {
    std::string title;
    std::vector<Point> points;
  };
  std::string x_title;
  std::string y_title;
  Scale x_scale = Scale::linear;
  Scale y_scale = Scale::linear;
  // If `x_words` is not empty, these words are the labels of the x axis, and Point::x is an index into
  // `x_words`.
  std::vector<std::string> x_words;
  bool joined = true;  // true: lines connect the points; false: a scatter plot
  std::vector<Series> series;
  std::vector<std::string> notes;  // notes for the user, for example about values that the chart omits
};
// Throws Error(not_found) if there is nothing to draw. Throws Error(invalid) if a column of `form` does not
// exist or has values that the chart cannot show.
[[nodiscard]] Chart make_chart(const Results& results, const ChartForm& form);

}  // namespace combu
