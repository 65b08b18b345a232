#pragma once
// The field `cache`: reuse of the results of equal trials.

#include "combu/spec.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

// Accepts true, false, or an object whose field `key` lists fields such as "cmd" and "params.lr".
[[nodiscard]] Cache read_cache(const Json& value, const Place& place, Report& report);

}  // namespace combu::spec
