#pragma once
// The trial's `kubernetes` section, and its merge into a Pod.

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "combu/spec.hpp"

namespace combu::kubernetes {

// Returns the trial's `kubernetes` section; null if the trial has none.
[[nodiscard]] nlohmann::json section_of(const Trial& trial);

// Merges the object `over` into the object `into`:
//  - two objects are merged member by member
//  - elements of `env` and `volumes` with equal names, and elements of `volumeMounts` with equal paths, are
//    merged; the other elements of these arrays are appended
//  - elements of `ports`, `tolerations`, `imagePullSecrets` and `searches` are appended
//  - null removes the member
//  - any other value replaces the value in `into`
void merge(nlohmann::json& into, const nlohmann::json& over);

// True if the section itself mounts a volume at this path of the container.
[[nodiscard]] bool mounts_at(const nlohmann::json& section, std::string_view path);

}  // namespace combu::kubernetes
