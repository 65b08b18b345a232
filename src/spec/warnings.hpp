#pragma once
// Warnings of values that are legal but rarely meant.

#include <string>
#include <string_view>

#include "combu/spec.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

// The text that combu replaces by the run's id where it is the value of a `local`.
inline constexpr std::string_view k_identifier_text = "UUID";

// Warns of the first string in `value` that still has k_identifier_text as a word of its own. `place` is of
// `value`, relative to its trial.
void warn_of_identifier(const Json& value, const Place& place, Report& report);

// Warns of a trial that is laid on the defaults. `shell_syntax` is what find_shell_syntax() gives for its
// `cmd`; empty for a `cmd` that is an array.
void warn_of_trial(const Trial& trial, const std::string& shell_syntax, Report& report);

}  // namespace combu::spec
