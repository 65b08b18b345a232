#pragma once
// What is kept of trials, and where it is taken to.

#include <string>
#include <vector>

#include "combu/spec.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

// Reports what a shell would take for a pattern; false: it was one.
[[nodiscard]] bool expect_no_pattern(const std::string& path, const Place& place, Report& report);

// ["/out"], or [{path, required, max_size}].
[[nodiscard]] std::vector<Output> read_outputs(const Json& value, const Place& place, Report& report);

// {to, on}
[[nodiscard]] Collect read_collect(const Json& value, const Caller& caller, const Place& place,
                                   Report& report);

}  // namespace combu::spec
