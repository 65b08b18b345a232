#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "combu/analysis.hpp"
#include "combu/telemetry.hpp"
#include "combu/text.hpp"

namespace combu {
namespace {

// maximum number of curves in a chart, because a reader cannot distinguish more curves
constexpr std::size_t k_series_max = 24;
// If `by` is empty and there are more trials than this, one curve shows the mean of all trials.
constexpr std::size_t k_single_max = 10;
constexpr std::size_t k_title_max = 60;  // maximum width of a curve's name, in columns
// Maximum number of points of a curve. A page is too narrow to show more points.
constexpr std::size_t k_points_max = 2000;

// Computes the mean and the deviation of values without storing the values, by the algorithm of Welford,
// Technometrics 4 (1962) 419.
class Running {
 public:
  void take(double value) {
    ++count_;
    const double before = value - mean_;
    mean_ += before / static_cast<double>(count_);
    squares_ += before * (value - mean_);
  }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] Chart::Point point(double x) const {
    if (count_ < 2) return {.x = x, .y = mean_, .spread = 0};
    const auto count = static_cast<double>(count_);
    const double deviation = std::sqrt(squares_ / (count - 1));
    return {.x = x, .y = mean_, .spread = student_t(count - 1) * deviation / std::sqrt(count)};
  }

 private:
  std::size_t count_ = 0;
  double mean_ = 0;
  double squares_ = 0;
};

// Counts values that cannot be drawn.
struct LeftOut {
  std::size_t no_numbers = 0;
  std::size_t not_above_zero = 0;
};

struct SeriesGroup {
  std::string title;
  std::vector<const ResultRow*> trials;
};

std::vector<SeriesGroup> groups_by(const std::vector<const ResultRow*>& rows, const Column& column,
                                   const std::string& by) {
  // is_less() sorts numbers by value, with NaN last, and texts in natural order (is_before()).
  using Key = std::pair<double, std::string>;
  const auto place_of = [](const Value& value) {
    const auto* number = std::get_if<double>(&value);
    if (number == nullptr) return 0.0;
    return std::isnan(*number) ? std::numeric_limits<double>::infinity() : *number;
  };
  const auto is_less = [](const Key& one, const Key& other) {
    return one.first != other.first ? one.first < other.first : is_before(one.second, other.second);
  };
  std::map<Key, std::vector<const ResultRow*>, decltype(is_less)> sorted(is_less);
  for (const ResultRow* row : rows) {
    const Value value = value_in(*row, column);
    sorted[{place_of(value), whole_text(value)}].push_back(row);
  }
  if (sorted.size() > k_series_max)
    throw Error(
        ErrorKind::invalid, "--by",
        fmt::format(
            "`{}` has {} values, but a plot shows at most {} curves; draw the last values with --x {}, "
            "or choose trials with --where",
            by, sorted.size(), k_series_max, by));
  std::vector<SeriesGroup> groups;
  groups.reserve(sorted.size());
  for (auto& [key, trials] : sorted)
    groups.push_back({fmt::format("{}={}", by, key.second.empty() ? "–" : key.second), std::move(trials)});
  return groups;
}

// Groups trials by their value in the column `by`. If `by` is empty, each trial forms its own group. If `by`
// is empty and there are more than k_single_max trials, all trials form one group.
std::vector<SeriesGroup> groups_of(const Results& results, const std::vector<const ResultRow*>& rows,
                                   const std::string& by) {
  if (!by.empty()) return groups_by(rows, expect_column(results, by, "--by"), by);
  if (rows.size() > k_single_max) return {{fmt::format("mean of {} trials", rows.size()), rows}};
  std::vector<SeriesGroup> groups;
  groups.reserve(rows.size());
  for (const ResultRow* row : rows) groups.push_back({row->trial.name, {row}});
  return groups;
}

// Replaces adjacent points by their mean until at most k_points_max remain. If the curve has a gap between
// points that one mean replaces, the gap moves to the position before this mean.
void thin(Chart::Series& series, std::vector<std::string>& notes) {
  const std::size_t width = (series.points.size() + k_points_max - 1) / k_points_max;
  if (width <= 1) return;
  std::vector<Chart::Point> thinned;
  for (std::size_t from = 0; from < series.points.size(); from += width) {
    const std::size_t until = std::min(from + width, series.points.size());
    const auto count = static_cast<double>(until - from);
    Chart::Point sum;
    for (std::size_t i = from; i < until; ++i) {
      sum.x += series.points[i].x / count;
      sum.y += series.points[i].y / count;
      sum.spread += series.points[i].spread / count;
      sum.apart = sum.apart || series.points[i].apart;
    }
    thinned.push_back(sum);
  }
  series.points = std::move(thinned);
  notes.push_back(fmt::format("{}: each point is the mean of {} steps", series.title, width));
}

bool is_drawn(double x, double y, const ChartForm& form, LeftOut& left_out) {
  if (!std::isfinite(x) || !std::isfinite(y)) {
    ++left_out.no_numbers;
    return false;
  }
  if ((form.x_scale == Scale::logarithmic && x <= 0) || (form.y_scale == Scale::logarithmic && y <= 0)) {
    ++left_out.not_above_zero;
    return false;
  }
  return true;
}

void add_notes(Chart& chart, const LeftOut& left_out) {
  if (left_out.no_numbers > 0)
    chart.notes.push_back(fmt::format("left out: {} that {}", number_of(left_out.no_numbers, "value"),
                                      left_out.no_numbers == 1 ? "is not a number" : "are not numbers"));
  if (left_out.not_above_zero > 0)
    chart.notes.push_back(fmt::format("left out: {} not above 0, because the scale is logarithmic",
                                      number_of(left_out.not_above_zero, "value")));
}

Error nothing_to_draw(const Results& results, const ChartForm& form) {
  return {ErrorKind::not_found, form.metric,
          fmt::format("nothing to draw: no trial of run {} reported a value{}", results.run.id.text(),
                      form.x.empty() ? "" : fmt::format(", or none of these trials has `{}`", form.x))};
}

// For each step, uses only the last value of each trial, because a resumed trial may report a step several
// times. A step without a value that can be drawn becomes a gap.
Chart::Series curve_of(const Results& results, const std::string& metric, const SeriesGroup& group,
                       const ChartForm& form, LeftOut& left_out) {
  std::map<double, Running> by_step;
  for (const ResultRow* row : group.trials) {
    std::map<double, double> points_by_step;
    results.telemetry->points(row->trial.name, metric, [&](const MetricPoint& point) {
      if (!std::isnan(point.step))
        points_by_step.insert_or_assign(points_by_step.end(), point.step, point.value);
    });
    for (const auto& [step, value] : points_by_step) {
      Running& values = by_step[step];
      if (is_drawn(step, value, form, left_out)) values.take(value);
    }
  }
  Chart::Series series{.title = group.title, .points = {}};
  bool is_gap = false;
  for (const auto& [step, values] : by_step) {
    if (!values.empty()) {
      series.points.push_back(values.point(step));
      series.points.back().apart = is_gap;
    }
    is_gap = values.empty();
  }
  return series;
}

Chart curves(const Results& results, const ChartForm& form) {
  const Column column = expect_column(results, form.metric, "plot");
  if (column.of != Column::Of::metric || column.part != Column::Part::last)
    throw Error(
        ErrorKind::invalid, "plot",
        fmt::format("`{}` has one value for each trial, but no steps; choose the x axis with --x NAME",
                    form.metric));
  Chart chart{.x_title = "step",
              .y_title = form.metric,
              .x_scale = form.x_scale,
              .y_scale = form.y_scale,
              .x_words = {},
              .joined = true};
  std::vector<const ResultRow*> rows;
  for (const ResultRow& row : results.rows)
    if (row.metrics[column.index].points > 0) rows.push_back(&row);
  LeftOut left_out;
  for (const SeriesGroup& group : groups_of(results, rows, form.by)) {
    Chart::Series series = curve_of(results, results.metrics[column.index], group, form, left_out);
    thin(series, chart.notes);
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  add_notes(chart, left_out);
  return chart;
}

// Returns the distinct texts of the column in natural order, or nothing if all its values are numbers.
std::vector<std::string> words_of(const std::vector<const ResultRow*>& rows, const Column& column) {
  bool all_numbers = true;
  std::vector<std::string> words;
  for (const ResultRow* row : rows) {
    const Value value = value_in(*row, column);
    if (std::holds_alternative<std::monostate>(value)) continue;
    all_numbers = all_numbers && std::holds_alternative<double>(value);
    words.push_back(whole_text(value));
  }
  if (all_numbers) return {};
  std::ranges::sort(words, is_before);
  words.erase(std::ranges::unique(words).begin(), words.end());
  return words;
}

Chart scatter(const Results& results, const ChartForm& form) {
  const Column y = expect_column(results, form.metric, "plot");
  const Column x = expect_column(results, form.x, "--x");
  Chart chart{.x_title = form.x,
              .y_title = form.metric,
              .x_scale = form.x_scale,
              .y_scale = form.y_scale,
              .x_words = {},
              .joined = false};
  std::vector<const ResultRow*> rows;
  for (const ResultRow& row : results.rows)
    if (std::holds_alternative<double>(value_in(row, y)) &&
        !std::holds_alternative<std::monostate>(value_in(row, x)))
      rows.push_back(&row);
  chart.x_words = words_of(rows, x);
  if (!chart.x_words.empty() && form.x_scale == Scale::logarithmic)
    throw Error(ErrorKind::invalid, "--log", fmt::format("every value of `{}` must be a number", form.x));
  const auto x_of = [&](const ResultRow& row) {
    const Value value = value_in(row, x);
    if (chart.x_words.empty()) return std::get<double>(value);
    const auto at = std::ranges::lower_bound(chart.x_words, whole_text(value), is_before);
    return static_cast<double>(at - chart.x_words.begin());
  };
  LeftOut left_out;
  const auto add = [&](const std::string& title, const std::vector<const ResultRow*>& members) {
    Chart::Series series{.title = title, .points = {}};
    for (const ResultRow* row : members) {
      const double value = std::get<double>(value_in(*row, y));
      const double place = x_of(*row);
      if (is_drawn(place, value, form, left_out))
        series.points.push_back({.x = place, .y = value, .spread = 0});
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  };
  if (form.by.empty()) {
    add(fmt::format("{} trials", rows.size()), rows);
  } else {
    for (const auto& [title, members] : groups_of(results, rows, form.by)) add(title, members);
  }
  add_notes(chart, left_out);
  return chart;
}

}  // namespace

Chart make_chart(const Results& results, const ChartForm& form) {
  if (results.metrics.empty() && form.x.empty()) throw nothing_to_draw(results, form);
  Chart chart = form.x.empty() ? curves(results, form) : scatter(results, form);
  if (chart.series.empty()) throw nothing_to_draw(results, form);
  chart.x_title = clean_line(chart.x_title);
  chart.y_title = clean_line(chart.y_title);
  for (std::string& word : chart.x_words) word = cut_line(clean_line(word), k_title_max);
  for (Chart::Series& series : chart.series) series.title = cut_line(clean_line(series.title), k_title_max);
  return chart;
}

}  // namespace combu
