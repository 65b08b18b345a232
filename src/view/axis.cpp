#include "view/axis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "combu/analysis.hpp"
#include "combu/text.hpp"

namespace combu {
namespace {

constexpr double k_margin = 0.03;  // free space at each end, as a fraction of the axis

// Returns the smallest number that is 1, 2 or 5 times a power of ten and not less than `step`. The algorithm
// is from "Nice Numbers for Graph Labels" by Heckbert, Graphics Gems (1990).
double nice_step(double step) {
  const double power = std::pow(10, std::floor(std::log10(step)));
  const double part = step / power;
  constexpr double k_rounding = 1e-9;
  for (const double nice : {1.0, 2.0, 5.0})
    if (part <= nice * (1 + k_rounding)) return nice * power;
  return 10 * power;
}

// Returns the label of a tick, with enough decimal places to distinguish adjacent ticks.
std::string label_of(double value, double step) {
  constexpr double k_small = 1e-4;
  constexpr double k_large = 1e6;
  if (std::fabs(value) < step / 2) return "0";
  if (step < k_small || std::fabs(value) >= k_large) return short_number(value);
  const int places = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  return fmt::format("{:.{}f}", value, places);
}

struct Range {
  double least = std::numeric_limits<double>::infinity();
  double greatest = -std::numeric_limits<double>::infinity();
  void take(double value) {
    least = std::min(least, value);
    greatest = std::max(greatest, value);
  }
};

}  // namespace

Axis::Axis(double least, double greatest, Scale scale, std::size_t ticks_max)
    : scale_(scale),
      from_(scale == Scale::logarithmic ? std::log10(least) : least),
      until_(scale == Scale::logarithmic ? std::log10(greatest) : greatest) {
  double length = until_ - from_;
  if (length <= 0) length = scale == Scale::logarithmic || from_ == 0 ? 1 : std::fabs(from_);
  const double room = until_ > from_ ? length * k_margin : length / 2;
  from_ -= room;
  until_ += room;
  if (scale == Scale::logarithmic) add_logarithmic_ticks(ticks_max);
  if (ticks_.size() < 2) {
    ticks_.clear();
    add_linear_ticks(ticks_max);
  }
}

Axis::Axis(const std::vector<std::string>& words, std::size_t stride)
    : scale_(Scale::linear), from_(-0.5), until_(static_cast<double>(words.size()) - 0.5) {
  for (std::size_t i = 0; i < words.size(); i += stride) add_tick(static_cast<double>(i), words[i]);
}

double Axis::place(double value) const {
  const double on_scale = scale_ == Scale::logarithmic ? std::log10(value) : value;
  return (on_scale - from_) / (until_ - from_);
}

void Axis::add_tick(double value, std::string label) {
  const double where = place(value);
  if (where >= 0 && where <= 1) ticks_.push_back({.place = where, .label = std::move(label)});
}

void Axis::add_linear_ticks(std::size_t ticks_max) {
  const bool is_logarithmic = scale_ == Scale::logarithmic;
  const double least = is_logarithmic ? std::pow(10, from_) : from_;
  const double greatest = is_logarithmic ? std::pow(10, until_) : until_;
  const double step = nice_step((greatest - least) / static_cast<double>(ticks_max));
  const double first = std::ceil(least / step);
  for (int i = 0; (first + i) * step <= greatest; ++i)
    add_tick((first + i) * step, label_of((first + i) * step, step));
}

// Ticks are at powers of ten. If the axis spans at most two decades, there are also ticks at 2 and 5 times
// these powers.
void Axis::add_logarithmic_ticks(std::size_t ticks_max) {
  constexpr double k_few = 2;
  const double decades = until_ - from_;
  const auto stride = static_cast<int>(std::max(1.0, std::ceil(decades / static_cast<double>(ticks_max))));
  for (int power = static_cast<int>(std::floor(from_ / stride)) * stride; power <= until_; power += stride) {
    for (const double part : {1.0, 2.0, 5.0}) {
      const double value = part * std::pow(10, power);
      add_tick(value, short_number(value));
      if (decades > k_few) break;
    }
  }
}

Axis x_axis(const Chart& chart, std::size_t ticks_max) {
  Range range;
  for (const Chart::Series& series : chart.series)
    for (const Chart::Point& point : series.points) range.take(point.x);
  return {range.least, range.greatest, chart.x_scale, ticks_max};
}

Axis y_axis(const Chart& chart, std::size_t ticks_max) {
  Range range;
  for (const Chart::Series& series : chart.series) {
    for (const Chart::Point& point : series.points) {
      range.take(point.y);
      range.take(point.y + point.spread);
      if (chart.y_scale == Scale::linear || point.spread < point.y) range.take(point.y - point.spread);
    }
  }
  return {range.least, range.greatest, chart.y_scale, ticks_max};
}

std::string thinning_note(const Chart& chart, std::size_t stride) {
  if (stride <= 1) return {};
  const std::size_t last = stride / 10 % 10 == 1 ? 0 : stride % 10;
  const std::string_view ending = last == 1 ? "st" : last == 2 ? "nd" : last == 3 ? "rd" : "th";
  return fmt::format("every {}{} of {} values of `{}` is labelled", stride, ending, chart.x_words.size(),
                     chart.x_title);
}

}  // namespace combu
