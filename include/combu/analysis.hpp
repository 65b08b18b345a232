#pragma once
// Runs and trials as rows, a trial with all that is on record of it, and the results of runs: a row for each
// trial, columns by name, comparisons with their statistics, and the points of charts.

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

// A run, and how many of its trials are in which state.
struct RunRow {
  RunEntry entry;
  std::string state;  // "running", "left running", "interrupted", "ended"; "not on record"
  TrialCounts counts{};
};

// A trial by the record, and by the engine where that knows more.
struct TrialRow {
  TrialEntry entry;  // attempt 0: it stands for several trials
  Health health = Health::none;
  Instant created_at{};             // the epoch when not told
  std::optional<Usage> usage = {};  // of a running trial, now; nullopt: not known
};

// A trial of a run with all that is on record of it.
struct ShownTrial {
  const RunEntry& run;
  std::optional<RunEntry> ran_in;  // by itself, or as an equal one; nullopt: in one that is not on record
  const Trial& trial;
  TrialEntry entry;
  std::vector<AttemptEntry> attempts;
  std::optional<KnownEntry> known;
  std::vector<std::string> inputs;  // their digests, where they are known
  std::vector<MetricSummary> metrics;
  std::optional<KeptLog> log;
  std::string outputs;          // where its outputs are; empty: there are none
  std::string partial_outputs;  // where those of an attempt that still ran are

  [[nodiscard]] bool is_equal() const { return known && !known->equal_trial.empty(); }
  // Points of its metrics beyond k_kept_points_max.
  [[nodiscard]] std::size_t points_not_kept() const {
    std::size_t points = 0;
    for (const MetricSummary& metric : metrics) points += metric.points;
    return points - std::min(points, k_kept_points_max);
  }
  [[nodiscard]] std::string digest_of(std::size_t input) const {
    return input < inputs.size() ? inputs[input] : "";
  }
};

// By what conditions choose a trial on record: "state", "exit_code", "memory_peak", …; nullopt: it has none,
// or there is nothing of this name. `wanted`: what it is compared with. Throws Error(invalid) for a state
// that there is not.
[[nodiscard]] std::optional<std::string> trial_value(const TrialEntry& entry, std::string_view name,
                                                     std::string_view wanted = {});

// ---- Results: what a run's trials were given, and the numbers that they have told

// Nothing, a number (that may be none), or a text: a string, or another value's JSON.
using Value = std::variant<std::monostate, double, std::string>;

// Summary of a metric of a trial's newest attempt. Its numbers are NaN if none of the metric's values is a
// number.
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
  std::vector<ResultRow> rows;             // in the experiment's order
  std::shared_ptr<Telemetry> telemetry{};  // has the points; nullptr: there are none
};
// `telemetry`: the run's; nullptr: it has none.
[[nodiscard]] Results read_results(Record& record, std::shared_ptr<Telemetry> telemetry, RunEntry run);

// The column that is likely meant by a name that none has.
[[nodiscard]] std::optional<std::string> nearest_column(const Results& results, std::string_view name);

// Keeps the trials of which the condition is so. Gives the names in it that no trial has a value of.
std::set<std::string> choose_results(Results& results, const Filter& where);

// A value for people, and in full; empty where there is none.
[[nodiscard]] std::string short_text(const Value& value);
[[nodiscard]] std::string whole_text(const Value& value);
// "null" for none, and for what JSON has no number for.
[[nodiscard]] std::string json_value(const Value& value);

// ---- Columns: fields of a trial ("state", "seconds"), params and metrics, by name

struct Column {
  enum class Of { field, param, metric };
  enum class Part { last, least, greatest, points };
  Of of = Of::field;
  std::size_t index = 0;  // of the param or the metric
  Part part = Part::last;
  std::string name;  // by which it is found in these results

  bool operator==(const Column&) const = default;
};

// Of a param's or a metric's name among a run's.
[[nodiscard]] std::optional<std::size_t> index_of(const std::vector<std::string>& names,
                                                  std::string_view name);

// As described above. nullopt: there is none.
[[nodiscard]] std::optional<Column> find_column(const Results& results, std::string_view name);
// Throws Error(invalid), of `subject`.
[[nodiscard]] Column expect_column(const Results& results, std::string_view name, std::string_view subject);

// The names in lists of columns or params, each list "a,b" or "'a,b',c", that `option` was given. Throws
// Error(invalid) for an empty name, one that is named twice, or a quote without its end.
[[nodiscard]] std::vector<std::string> names_in(const std::vector<std::string>& lists,
                                                std::string_view option);

// True if `name` is a field of the trial.
[[nodiscard]] bool is_field(std::string_view name);

[[nodiscard]] Column field_column(std::string_view name);
[[nodiscard]] Column param_column(const Results& results, std::size_t index);
[[nodiscard]] Column metric_column(const Results& results, std::size_t index);

[[nodiscard]] Value value_in(const ResultRow& row, const Column& column);

// How long it ran, or has run; nullopt: it has not, or that is not known.
[[nodiscard]] std::optional<Seconds> time_of(const TrialEntry& entry, Instant now);

// The params that are the same for all of several trials.
[[nodiscard]] std::vector<bool> params_shared(const Results& results);

// ---- Times: where the time of attempts has gone

// In order. An attempt waits in only one of the first two ways.
enum class AttemptPart {
  needs,     // waiting for what its trial depends on
  retry,     // waiting to retry
  place,     // waiting for a place
  combu,     // combu itself: what is left of the start
  creating,  // by the engine, as the next one
  starting,
  running,
  home,  // collecting outputs
};
inline constexpr std::size_t k_attempt_part_count = 8;
// By AttemptPart; nullopt: there was none of it, or it is not known.
using AttemptTimes = std::array<std::optional<Seconds>, k_attempt_part_count>;

struct TimedAttempt {
  AttemptEntry entry;
  AttemptTimes times;
};
// `attempts`: of the run or of one of its trials, as Record::attempts() returns them.
[[nodiscard]] std::vector<TimedAttempt> times_of(std::vector<AttemptEntry> attempts, const RunEntry& run);

// One part of several attempts' times.
struct PartTimes {
  Seconds median{0};
  Seconds most_of_90_percent{0};  // the 90th percentile
  Seconds most{0};
  Seconds sum{0};
};
// By AttemptPart; nullopt: no attempt has any of it.
using TimesByPart = std::array<std::optional<PartTimes>, k_attempt_part_count>;
[[nodiscard]] TimesByPart times_by_part(std::span<const TimedAttempt> attempts);

// ---- Statistics: means, and how far they can be trusted: 95 % intervals by Student's t. Formulas:
// NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.5.2 (of a mean), 1.3.5.3 (of the difference of two).

// `half`: of the interval, which is mean ± half. It and the deviation (n - 1) are not a number where there
// are less than two values.
struct Sample {
  std::size_t count = 0;
  double mean = 0;
  double deviation = 0;
  double half = 0;
};
[[nodiscard]] Sample sample_of(std::span<const double> values);

// How a difference's interval was found.
enum class Pairing {
  none,    // there is none: less than two values on one side
  paired,  // from the differences of those that belong together
  welch,   // from two samples, of any deviations
};
[[nodiscard]] std::string_view to_string(Pairing pairing);

struct Difference {
  double mean = 0;
  double half = 0;  // not a number where there is no interval
  Pairing pairing = Pairing::none;
};
// `other` - `one`. Those at the same place belong together; equally many.
[[nodiscard]] Difference paired_difference(std::span<const double> one, std::span<const double> other);
[[nodiscard]] Difference welch_difference(const Sample& one, const Sample& other);

// The 0.975 quantile of Student's t distribution with `freedom` degrees of freedom (any number above 0).
[[nodiscard]] double student_t(double freedom);

// ---- Comparison of runs

struct CompareForm {
  std::vector<std::string> metrics;  // columns; none: the last values of all metrics
  std::vector<std::string> over;     // params in which repeats differ
};
// Trials that mean the same but for `over`.
struct Pair {
  std::vector<Value> params;              // by Pairs::params
  std::string trial;                      // the name, of trials without params
  std::vector<Sample> samples;            // by run; without values where the run has none
  std::vector<Difference> differences{};  // from the first run, by run from the second one on
};

struct PairTable {
  std::string metric;                                 // the column's name
  std::vector<std::string> params;                    // in which the pairs differ
  bool by_name = false;                               // some have no params
  std::vector<std::pair<std::string, Value>> shared;  // the params that are the same in all pairs
  std::vector<Pair> pairs;                            // that are in two runs or more; of one run all
  std::vector<Difference> overall;                    // by run from the second one on: of the pairs' means
  std::vector<std::size_t> overall_count;
  std::vector<std::string> notes;  // what is left out, and why
};

// One for each metric. Throws Error(invalid) for a column that no run has.
[[nodiscard]] std::vector<PairTable> compare(std::span<const Results> runs, const CompareForm& form);

// ---- Charts

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

}  // namespace combu
