#pragma once
// Classes that extract metrics from the output of a trial.

#include <re2/re2.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "combu/spec.hpp"
#include "combu/telemetry.hpp"

namespace combu::telemetry {

// Limits the numbers of metrics and points that combu stores for an attempt. MetricLimits admits the first
// k_metrics_max different metrics, and the first k_kept_points_max points of these metrics.
class MetricLimits {
 public:
  // `take_points` maps each metric of the attempt to the number of its points that are already stored.
  explicit MetricLimits(const std::map<std::string, std::size_t>& take_points = {});

  [[nodiscard]] bool admits(const std::string& name);
  // Counts a point of an admitted metric. Returns true if the point must be stored.
  [[nodiscard]] bool keeps_point() { return ++points_ <= k_kept_points_max; }

  // Returns the number of points of metrics that were not admitted.
  [[nodiscard]] std::size_t passed_over() const { return passed_over_; }
  // Returns true if admitted metrics had more than k_kept_points_max points.
  [[nodiscard]] bool exceeds_points() const { return points_ > k_kept_points_max; }

 private:
  std::set<std::string> names_;
  std::size_t points_ = 0;
  std::size_t passed_over_ = 0;
};

// Extracts metrics from lines. The caller must pass the lines to add() one by one, without line ends.
// Ignores lines without numbers.
class MetricLines {
 public:
  enum class Form { json, csv, pattern };

  // Form::pattern searches for the regular expression `metrics.pattern`. All forms take the step of a point
  // from the number with the name `metrics.step`.
  MetricLines(Form form, MetricLimits& limits, const Metrics& metrics = {});

  void add(std::string_view line, Instant at);
  // Returns the metrics that add() has found since the last call of take_points().
  [[nodiscard]] std::vector<LogBatch::Metric> take_points();

 private:
  struct Series {
    std::vector<MetricPoint> points;
    PointSummary more;     // summary of the points that are not stored
    std::size_t line = 0;  // number of the line with the last point, counted from 1
  };

  void add_json(std::string_view line, Instant at);
  void add_csv(std::string_view line, Instant at);
  void add_match(std::string_view line, Instant at);
  // `numbers` must hold the numbers of one line, in the order of the line. If several numbers have the same
  // name, only the first one is used.
  void add(std::span<const std::pair<std::string, double>> numbers, Instant at);

  Form form_;
  MetricLimits& limits_;
  std::string step_;
  std::unique_ptr<re2::RE2> pattern_;
  std::vector<std::pair<int, std::string>> groups_;  // number and name of each capturing group of pattern_
  std::vector<std::string> columns_;                 // the header of a CSV file
  std::vector<std::pair<std::string, double>> numbers_;
  std::map<std::string, Series, std::less<>> series_;  // by metric
  std::size_t line_ = 0;
};

inline constexpr std::size_t k_line_max = std::size_t{1} << 20U;

// Joins pieces of a log into lines. A carriage return ends a line as a newline does, because programs print
// carriage returns to overwrite a progress bar.
class Lines {
 public:
  using OnLine = std::function<void(std::string_view line, Instant at)>;
  explicit Lines(OnLine on_line) : on_line_(std::move(on_line)) {}

  // Ignores a line that is longer than k_line_max.
  void feed(std::string_view text, Instant at);
  void end(Instant at);

 private:
  // Splits a text without newlines at carriage returns, because a program ends each state of a progress bar
  // with a carriage return.
  void feed_states(std::string_view text, Instant at);
  void append(std::string_view text);
  void end_line(Instant at);

  OnLine on_line_;
  std::string line_;
  bool too_long_ = false;
};

}  // namespace combu::telemetry
