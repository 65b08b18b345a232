#pragma once
// The fields that limit and handle failures: retries, timeout, start_deadline, deadline, max_failures.

#include <cstddef>

#include "combu/spec.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

// Each function reports faults at `place`. For a faulty field, the function returns the value of an absent
// field.
[[nodiscard]] Retries read_retries(const Json& value, const Place& place, Report& report);
// Reads a maximum duration, which must be longer than 0.
[[nodiscard]] Seconds read_limit(const Json& value, const Place& place, Report& report);

// The limit of failed trials: a number of trials, or a share of all trials such as "10%".
struct MaxFailures {
  std::size_t trials = 0;
  double percent = 0;
  // Returns the limit for an experiment of `count` trials; 0: no limit was set.
  [[nodiscard]] std::size_t of(std::size_t count) const;
};
[[nodiscard]] MaxFailures read_max_failures(const Json& value, const Place& place, Report& report);

}  // namespace combu::spec
