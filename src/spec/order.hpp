#pragma once
// The fields that connect trials: depends and networks.

#include <string>
#include <vector>

#include "combu/spec.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

[[nodiscard]] std::vector<Depend> read_depends(const Json& value, const Place& place, Report& report);
[[nodiscard]] std::vector<std::string> read_networks(const Json& value, const Place& place, Report& report);

}  // namespace combu::spec
