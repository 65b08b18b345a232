#pragma once
// The fields `metrics` and `logs`.

#include "combu/spec.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

// Accepts {stdout, file, step}, or only the value of `stdout`. The value of `stdout` is "json" or a regular
// expression.
[[nodiscard]] Metrics read_metrics(const Json& value, const Place& place, Report& report);

// Accepts {max_size}.
[[nodiscard]] Bytes read_log_size(const Json& value, const Place& place, Report& report);

}  // namespace combu::spec
