#pragma once
// What is kept of what trials write.

#include "combu/spec.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

// {stdout: "json" | a regular expression, file, step}, or what `stdout` may be alone.
[[nodiscard]] Metrics read_metrics(const Json& value, const Place& place, Report& report);

// {max_size}
[[nodiscard]] Bytes read_log_size(const Json& value, const Place& place, Report& report);

}  // namespace combu::spec
