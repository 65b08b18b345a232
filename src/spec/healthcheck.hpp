#pragma once

#include <optional>

#include "combu/spec.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

[[nodiscard]] std::optional<Healthcheck> read_healthcheck(const Json& value, const Place& place,
                                                          Report& report);

}  // namespace combu::spec
