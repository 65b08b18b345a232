#pragma once
// The field `inputs`: files that combu copies into a container before the container starts.

#include <vector>

#include "combu/spec.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

// Accepts ["FROM:TO"] or [{from, to}].
[[nodiscard]] std::vector<Input> read_inputs(const Json& value, const Caller& caller, const Place& place,
                                             Report& report);

// Adds the condition `succeeded` on each trial whose outputs are inputs of `trial`, unless `trial` already
// has this condition.
void add_depends(Trial& trial);

}  // namespace combu::spec
