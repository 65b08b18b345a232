#pragma once
// Warnings about legal values that are probably mistakes.

#include <string>
#include <string_view>

#include "combu/spec.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

// combu replaces this text with the run's id if the text is the whole value of a `local`.
inline constexpr std::string_view k_identifier_text = "UUID";

// Warns of the first string in `value` that still contains k_identifier_text as a separate word. `place` is
// the place of `value` within its trial.
void warn_of_identifier(const Json& value, const Place& place, Report& report);

// Warns about values of `trial`, which must already be merged with the defaults. `shell_syntax` is the result
// of find_shell_syntax() for the trial's `cmd`, or empty for a `cmd` that is an array.
void warn_of_trial(const Trial& trial, const std::string& shell_syntax, Report& report);

}  // namespace combu::spec
