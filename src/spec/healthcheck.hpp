#pragma once

#include "combu/spec.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

[[nodiscard]] Rare<Healthcheck> read_healthcheck(const Json& value, const Place& place, Report& report);

}  // namespace combu::spec
