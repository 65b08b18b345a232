#pragma once

#include <vector>

#include "combu/spec.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

[[nodiscard]] std::vector<Port> read_ports(const Json& value, const Place& place, Report& report);

}  // namespace combu::spec
