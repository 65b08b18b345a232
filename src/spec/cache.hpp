#pragma once
// The field `cache`: reuse of the results of equal trials.

#include "combu/spec.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

// Accepts true, false, or {key: ["cmd", "params.lr"]}.
[[nodiscard]] Cache read_cache(const Json& value, const Place& place, Report& report);

}  // namespace combu::spec
