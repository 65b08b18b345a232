#pragma once
// The fields that concern only Kubernetes: the section `kubernetes` of a trial, and `keep`.

#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

// Accepts an object with the members `pod`, `container` and `metadata`, each an object or null. Does not
// check the content of these members. A member that is null stays null, so that it replaces the member of
// `defaults`.
[[nodiscard]] Json read_kubernetes(const Json& value, const Place& place, Report& report);

// Removes the members that are null from all objects in `value`.
void drop_null_members(Json& value);

// Reads `keep`.
[[nodiscard]] Keep read_keep(const Json& value, const Place& place, Report& report);

}  // namespace combu::spec
