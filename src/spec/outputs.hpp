#pragma once
// The fields `outputs` and `collect`: which files combu copies from trials, and to which place.

#include <string>
#include <vector>

#include "combu/spec.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

// If the path contains a character of a shell pattern, reports an error and returns false.
[[nodiscard]] bool expect_no_pattern(const std::string& path, const Place& place, Report& report);

// Accepts ["/out"] or [{path, required, max_size}].
[[nodiscard]] std::vector<Output> read_outputs(const Json& value, const Place& place, Report& report);

// Accepts {to, on, every}.
[[nodiscard]] Collect read_collect(const Json& value, const Caller& caller, const Place& place,
                                   Report& report);

}  // namespace combu::spec
