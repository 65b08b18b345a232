#pragma once
// Finds numbers in what a trial writes.

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

// Which points are taken of an attempt: those of the first k_metrics_max different metrics. Of these the
// first k_kept_points_max are kept.
class MetricLimits {
 public:
  // `taken`: points by metric that have been taken of the attempt before.
  explicit MetricLimits(const std::map<std::string, std::size_t>& taken = {});

  [[nodiscard]] bool admits(const std::string& name);
  // Counts a point of a metric that is admitted. True if it is to be kept.
  [[nodiscard]] bool keeps_point() { return ++points_ <= k_kept_points_max; }

  // Points of metrics that were not admitted.
  [[nodiscard]] std::size_t passed_over() const { return passed_over_; }
  // True if there were more points than are kept.
  [[nodiscard]] bool exceeds_points() const { return points_ > k_kept_points_max; }

 private:
  std::set<std::string> names_;
  std::size_t points_ = 0;
  std::size_t passed_over_ = 0;
};

// Reads one line after the other, each without its end. What holds no numbers is passed over.
class MetricLines {
 public:
  enum class Form { json, csv, pattern };

  // Form::pattern uses the pattern of `metrics`; every form uses the name of the step.
  MetricLines(Form form, MetricLimits& limits, const Metrics& metrics = {});

  void take(std::string_view line, Instant at);
  // What has been found since the last call.
  [[nodiscard]] std::vector<LogBatch::Metric> taken();

 private:
  struct Series {
    std::vector<MetricPoint> points;
    PointSummary more;     // of those that are not kept
    std::size_t line = 0;  // that the last point is from; the first line is 1
  };

  void take_json(std::string_view line, Instant at);
  void take_csv(std::string_view line, Instant at);
  void take_match(std::string_view line, Instant at);
  // `numbers`: of one line, in its order. Of several with one name the first one counts.
  void add(std::span<const std::pair<std::string, double>> numbers, Instant at);

  Form form_;
  MetricLimits& limits_;
  std::string step_;
  std::unique_ptr<re2::RE2> pattern_;
  std::vector<std::pair<int, std::string>> groups_;  // by number
  std::vector<std::string> columns_;                 // of the first line of a CSV file
  std::vector<std::pair<std::string, double>> numbers_;
  std::map<std::string, Series, std::less<>> series_;  // by metric
  std::size_t line_ = 0;
};

inline constexpr std::size_t k_line_max = std::size_t{1} << 20U;

// Lines, put together from pieces. A carriage return ends one as a newline does: what draws a progress bar
// writes each of its states over the one before.
class Lines {
 public:
  using Tell = std::function<void(std::string_view line, Instant at)>;
  explicit Lines(Tell tell) : tell_(std::move(tell)) {}

  // A line that is longer than k_line_max is passed over.
  void feed(std::string_view text, Instant at);
  void end(Instant at);

 private:
  // A text without a newline: the states of a progress bar.
  void feed_states(std::string_view text, Instant at);
  void append(std::string_view text);
  void end_line(Instant at);

  Tell tell_;
  std::string line_;
  bool too_long_ = false;
};

}  // namespace combu::telemetry
