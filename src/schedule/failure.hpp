#pragma once
// What the failure of one attempt means, and how it is told.

#include <optional>
#include <string>

#include "combu/engine.hpp"
#include "combu/spec.hpp"

namespace combu::schedule {

// Why an attempt ended that nobody of this run has stopped. `after_break`: its end was not told when it came,
// but found out when the engine was there again.
[[nodiscard]] Cause cause_of(const Sighting& ended, bool after_break);

// "out of memory at 512 MiB (exit code 137)".
[[nodiscard]] std::string failure_text(const Trial& trial, Cause cause, std::optional<int> exit_code,
                                       Bytes memory);

[[nodiscard]] std::string stopped_by(const std::string& who);

// Before the attempt that follows `failures` failed ones.
[[nodiscard]] Seconds pause_after(const Retries& retries, int failures);

}  // namespace combu::schedule
