#pragma once
// One direction of a chart: where a value stands in it, and which values are written beside it.

#include <cstddef>
#include <string>
#include <vector>

#include "combu/analysis.hpp"

namespace combu {

struct AxisTick {
  double place = 0;  // 0 to 1, as Axis::place()
  std::string label;
};

class Axis {
 public:
  // Values of a logarithmic one are above 0. At most about `ticks_max` ticks.
  Axis(double least, double greatest, Scale scale, std::size_t ticks_max);
  // Places of the words, in their order; every `stride`-th has a tick, the first one too.
  Axis(const std::vector<std::string>& words, std::size_t stride);

  // 0 at its beginning, 1 at its end.
  [[nodiscard]] double place(double value) const;
  [[nodiscard]] const std::vector<AxisTick>& ticks() const { return ticks_; }

 private:
  void add_linear_ticks(std::size_t ticks_max);
  void add_logarithmic_ticks(std::size_t ticks_max);
  void add_tick(double value, std::string label);

  Scale scale_;
  double from_;  // on a logarithmic axis the logarithm, as `until_`
  double until_;
  std::vector<AxisTick> ticks_;
};

// Of all points, with their spread. Throws nothing: a chart has points. x_axis() is for charts without
// x_words.
[[nodiscard]] Axis x_axis(const Chart& chart, std::size_t ticks_max);
[[nodiscard]] Axis y_axis(const Chart& chart, std::size_t ticks_max);

// "every 3rd of 40 values of `model` is labelled"; empty if all are.
[[nodiscard]] std::string thinning_note(const Chart& chart, std::size_t stride);

}  // namespace combu
