#pragma once
// What the failure of one attempt means, and how it is told.

#include <optional>
#include <string>
#include <string_view>

#include "combu/engine.hpp"
#include "combu/schedule.hpp"
#include "combu/spec.hpp"

namespace combu::schedule {

// Exit code of a container that ended while no engine watched it (moby: daemon/daemon.go, restore).
inline constexpr int k_exit_unknown = 255;

// The reason of an attempt whose container was removed while no process watched it.
inline constexpr std::string_view k_end_unknown = "its container is gone, and how it ended is not on record";

// Why an attempt ended that nobody of this run has stopped. `after_break`: its end was not told when it came,
// but found out when the engine was there again.
[[nodiscard]] Cause cause_of(const Observation& ended, bool after_break);

// Break::was if the engine restarted after the attempt began, or if this is not known.
[[nodiscard]] Break break_since(std::optional<Instant> ran_at, std::optional<Instant> engine_began_at);

// The state of a trial whose last attempt failed or was stopped for this cause.
[[nodiscard]] TrialState state_after(Cause cause);

// Fact::reason, and who stopped the attempt.
struct EndReason {
  std::string reason;
  Stopper stopper = Stopper::none;
};
// "out of memory at 512 MiB (exit code 137)".
[[nodiscard]] EndReason failure_reason(const Trial& trial, Cause cause, std::optional<int> exit_code,
                                       Bytes memory);
// A person stopped it.
[[nodiscard]] EndReason stopped_by(const std::string& who);
[[nodiscard]] std::string text_of(const EndReason& end);

// Before the attempt that follows `failures` failed ones.
[[nodiscard]] Seconds pause_after(const Retries& retries, int failures);

}  // namespace combu::schedule
