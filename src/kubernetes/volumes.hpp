#pragma once
// The volumes of a Pod.

#include <nlohmann/json_fwd.hpp>

#include "combu/spec.hpp"

namespace combu::kubernetes {

// Adds the trial's volumes and /dev/shm to the spec of its Pod. Leaves out each volume at whose path the
// section mounts another volume. `section`: the trial's `kubernetes` section, or null.
void add_volumes(nlohmann::json& spec, const Trial& trial, const nlohmann::json& section);

}  // namespace combu::kubernetes
