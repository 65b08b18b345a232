#pragma once
// The fields that say what becomes of failures: retries, timeout, start_deadline, deadline, max_failures.

#include <cstddef>

#include "combu/spec.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

// Each reports what is wrong at `place`, and then gives what is for nothing.
[[nodiscard]] Retries read_retries(const Json& value, const Place& place, Report& report);
// A duration that something may take at most, longer than 0.
[[nodiscard]] Seconds read_limit(const Json& value, const Place& place, Report& report);

// 5 trials, or "10%" of all.
struct MaxFailures {
  std::size_t trials = 0;
  double percent = 0;
  // Of `count` trials; 0 when none is given.
  [[nodiscard]] std::size_t of(std::size_t count) const;
};
[[nodiscard]] MaxFailures read_max_failures(const Json& value, const Place& place, Report& report);

}  // namespace combu::spec
