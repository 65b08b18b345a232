#pragma once
// Whether a trial that has been done is not done again.

#include "combu/spec.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

// true, false, or {key: ["cmd", "params.lr"]}.
[[nodiscard]] Cache read_cache(const Json& value, const Place& place, Report& report);

}  // namespace combu::spec
