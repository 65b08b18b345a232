#pragma once
// Means, and how far they can be trusted: 95 % intervals by Student's t. Formulas: NIST/SEMATECH e-Handbook
// of Statistical Methods, 1.3.5.2 (of a mean), 1.3.5.3 (of the difference of two).

#include <cstddef>
#include <span>
#include <string_view>

namespace combu {

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

// What Student's t with so many degrees of freedom (any number above 0) is below with a probability of
// 0.975.
[[nodiscard]] double student_t(double freedom);

}  // namespace combu
