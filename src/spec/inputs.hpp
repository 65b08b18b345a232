#pragma once
// What is put into containers before they start.

#include <vector>

#include "combu/spec.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

// ["FROM:TO"], or [{from, to}].
[[nodiscard]] std::vector<Input> read_inputs(const Json& value, const Caller& caller, const Place& place,
                                             Report& report);

// What another trial leaves is there when that one has succeeded: `trial` depends on that, if it does not
// yet.
void add_depends(Trial& trial);

}  // namespace combu::spec
