#pragma once
// One axis of a chart: converts values to positions, and chooses the ticks and their labels.

#include <cstddef>
#include <string>
#include <vector>

#include "combu/analysis.hpp"

namespace combu {

struct AxisTick {
  double place = 0;  // position on the axis from 0 to 1, as Axis::place() returns
  std::string label;
};

class Axis {
 public:
  // On a logarithmic scale, all values must be above 0. There are at most about `ticks_max` ticks.
  Axis(double least, double greatest, Scale scale, std::size_t ticks_max);
  // An axis of words: word i is at value i. The first word and each `stride`-th after it have a tick.
  Axis(const std::vector<std::string>& words, std::size_t stride);

  // Returns the position of `value`: 0 at the start of the axis, 1 at its end.
  [[nodiscard]] double place(double value) const;
  [[nodiscard]] const std::vector<AxisTick>& ticks() const { return ticks_; }

 private:
  void add_linear_ticks(std::size_t ticks_max);
  void add_logarithmic_ticks(std::size_t ticks_max);
  void add_tick(double value, std::string label);

  Scale scale_;
  double from_;  // start of the axis; with a logarithmic scale, `from_` and `until_` are logarithms
  double until_;
  std::vector<AxisTick> ticks_;
};

// x_axis() and y_axis() return an axis that contains all points of the chart. The y axis also contains the
// spreads of the points. The chart must have points. x_axis() is only for charts without x_words.
[[nodiscard]] Axis x_axis(const Chart& chart, std::size_t ticks_max);
[[nodiscard]] Axis y_axis(const Chart& chart, std::size_t ticks_max);

// Returns for example "every 3rd of 40 values of `model` is labelled", or "" if all values are labelled.
[[nodiscard]] std::string thinning_note(const Chart& chart, std::size_t stride);

}  // namespace combu
