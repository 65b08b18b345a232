#pragma once
// What the failure of one attempt means, and how it is told.

#include <optional>
#include <string>

#include "combu/engine.hpp"
#include "combu/schedule.hpp"
#include "combu/spec.hpp"

namespace combu::schedule {

// Exit code of a container that ended while no engine watched it (moby: daemon/daemon.go, restore).
inline constexpr int k_exit_unknown = 255;

// Why an attempt ended that nobody of this run has stopped. `after_break`: its end was not told when it came,
// but found out when the engine was there again.
[[nodiscard]] Cause cause_of(const Sighting& ended, bool after_break);

// The state of a trial whose last attempt failed or was stopped for this cause.
[[nodiscard]] TrialState state_after(Cause cause);

// "out of memory at 512 MiB (exit code 137)".
[[nodiscard]] std::string failure_text(const Trial& trial, Cause cause, std::optional<int> exit_code,
                                       Bytes memory);

[[nodiscard]] std::string stopped_by(const std::string& who);

// The reason of a failed attempt, with what follows it: "exit code 1; attempt 2 in 5 s".
[[nodiscard]] std::string with_retry_text(const std::string& reason, int attempt, Seconds pause);
[[nodiscard]] std::string without_retry_text(const std::string& reason);
// The reason of an attempt's end, which may be empty, and why its outputs could not be collected.
[[nodiscard]] std::string with_collect_text(const std::string& reason, const std::string& fault);
[[nodiscard]] std::string without_collect_text(const std::string& reason);

// Before the attempt that follows `failures` failed ones.
[[nodiscard]] Seconds pause_after(const Retries& retries, int failures);

}  // namespace combu::schedule
