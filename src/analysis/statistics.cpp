
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "combu/analysis.hpp"

namespace combu {
namespace {

constexpr double k_no_number = std::numeric_limits<double>::quiet_NaN();
constexpr double k_tail = 0.025;

// Returns the continued fraction of the incomplete beta function, https://dlmf.nist.gov/8.17#v (8.17.22),
// evaluated by the modified Lentz method.
double beta_fraction(double a, double b, double x) {
  constexpr double k_tiny = 1e-300;
  constexpr double k_close = 1e-15;
  constexpr int k_terms_max = 500;
  const auto kept_from_zero = [](double value) { return std::fabs(value) < k_tiny ? k_tiny : value; };
  double c = 1;
  double d = 1 / kept_from_zero(1 - (a + b) * x / (a + 1));
  double value = d;
  const auto take = [&](double term) {
    d = 1 / kept_from_zero(1 + term * d);
    c = kept_from_zero(1 + term / c);
    value *= c * d;
    return std::fabs(c * d - 1) < k_close;
  };
  for (int m = 1; m <= k_terms_max; ++m) {
    (void)take(m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)));
    if (take(-(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)))) break;
  }
  return value;
}

// Returns the regularized incomplete beta function I_x(a, b), https://dlmf.nist.gov/8.17.
double incomplete_beta(double a, double b, double x) {
  const double front = std::exp(a * std::log(x) + b * std::log1p(-x)) / std::beta(a, b);
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

// Returns the probability that Student's t exceeds `t`, by the formulas 8.17.E19 and 8.17.4 of
// https://dlmf.nist.gov/8.17.
double above(double t, double freedom) {
  return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t)) / 2;
}

}  // namespace

std::string_view to_string(Pairing pairing) {
  switch (pairing) {
    case Pairing::paired:
      return "paired";
    case Pairing::welch:
      return "Welch";
    default:
      return "";
  }
}

double student_t(double freedom) {
  // Student's t for a two-sided 95 % interval with infinitely many degrees of freedom
  constexpr double k_normal = 1.959963984540054;
  constexpr double k_as_normal = 1e7;
  constexpr int k_steps_max = 200;
  if (!(freedom > 0)) return k_no_number;
  if (freedom > k_as_normal) return k_normal;
  double low = k_normal;
  double high = 2 * k_normal;
  while (above(high, freedom) > k_tail) {
    low = high;
    high *= 2;
  }
  for (int step = 0; step < k_steps_max && high - low > 1e-12 * high; ++step) {
    const double middle = (low + high) / 2;
    (above(middle, freedom) > k_tail ? low : high) = middle;
  }
  return (low + high) / 2;
}

Sample sample_of(std::span<const double> values) {
  Sample sample{.count = values.size(), .mean = k_no_number, .deviation = k_no_number, .half = k_no_number};
  if (values.empty()) return sample;
  const auto count = static_cast<double>(values.size());
  double sum = 0;
  for (const double value : values) sum += value;
  sample.mean = sum / count;
  const auto [least, greatest] = std::ranges::minmax(values);
  // all values are equal, but the computed mean has a rounding error
  if (least == greatest) sample.mean = least;
  if (values.size() < 2) return sample;
  double squares = 0;
  for (const double value : values) squares += (value - sample.mean) * (value - sample.mean);
  sample.deviation = std::sqrt(squares / (count - 1));
  sample.half = student_t(count - 1) * sample.deviation / std::sqrt(count);
  return sample;
}

Difference paired_difference(std::span<const double> one, std::span<const double> other) {
  constexpr double k_rounding = 16 * std::numeric_limits<double>::epsilon();
  std::vector<double> differences;
  differences.reserve(one.size());
  double scale = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    differences.push_back(other[i] - one[i]);
    scale = std::max({scale, std::fabs(one[i]), std::fabs(other[i])});
  }
  Sample sample = sample_of(differences);
  // Differences that vary only by the rounding error count as equal, so their confidence interval has the
  // width 0.
  if (sample.count > 1) {
    const auto [least, greatest] = std::ranges::minmax(differences);
    if (greatest - least <= k_rounding * scale) sample.half = 0;
  }
  return {.mean = sample.mean,
          .half = sample.half,
          .pairing = sample.count < 2 ? Pairing::none : Pairing::paired};
}

Difference welch_difference(const Sample& one, const Sample& other) {
  const double mean = other.mean - one.mean;
  if (one.count < 2 || other.count < 2) return {.mean = mean, .half = k_no_number, .pairing = Pairing::none};
  const auto share = [](const Sample& sample) {
    return sample.deviation * sample.deviation / static_cast<double>(sample.count);
  };
  const auto part = [&](const Sample& sample) {
    return share(sample) * share(sample) / static_cast<double>(sample.count - 1);
  };
  const double variance = share(one) + share(other);
  if (variance == 0) return {.mean = mean, .half = 0, .pairing = Pairing::welch};
  const double freedom = variance * variance / (part(one) + part(other));
  return {.mean = mean, .half = student_t(freedom) * std::sqrt(variance), .pairing = Pairing::welch};
}

}  // namespace combu
