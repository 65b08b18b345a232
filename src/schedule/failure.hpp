#pragma once
// The cause and the reason of a failed attempt, and the pause before the next attempt.

#include <optional>
#include <string>
#include <string_view>

#include "combu/engine.hpp"
#include "combu/schedule.hpp"
#include "combu/spec.hpp"

namespace combu::schedule {

// Exit code that a restarted Docker Engine reports for a container that ended while the engine was down
// (moby: daemon/daemon.go, restore).
inline constexpr int k_exit_unknown = 255;

// The reason for an attempt's end if its container was removed while no process drove the run.
inline constexpr std::string_view k_end_unknown =
    "its container no longer exists, and its end was not recorded";

// Returns the engine's reason if the engine or its host has ended the attempt, and not the program; else an
// empty text.
[[nodiscard]] const std::string& engine_reason(const Observation& ended);

// Returns the cause for the end of an attempt that this run did not stop. `after_break`: the engine was
// unreachable when the attempt ended, and reported the end later.
[[nodiscard]] Cause cause_of(const Observation& ended, bool after_break);

// Returns Break::was if the engine restarted after the attempt began, or if one of these two moments is not
// known. Returns Break::was_not otherwise.
[[nodiscard]] Break break_since(std::optional<Instant> ran_at, std::optional<Instant> engine_began_at);

// Returns the state of a trial whose last attempt failed or was stopped for this cause.
[[nodiscard]] TrialState state_after(Cause cause);

// The reason of an attempt's end (Fact::reason), and who stopped the attempt.
struct EndReason {
  std::string reason;
  Stopper stopper = Stopper::none;
};
// Returns the reason of a failure, for example "out of memory at 512 MiB (exit code 137)".
[[nodiscard]] EndReason failure_reason(const Trial& trial, Cause cause, std::optional<int> exit_code,
                                       Bytes memory);
// Returns the reason of an attempt that the engine could not start. `error`: the engine's text.
[[nodiscard]] std::string start_failure_reason(std::string_view error);
// Returns the reason for the end of an attempt that user `who` stopped.
[[nodiscard]] EndReason stopped_by(const std::string& who);
[[nodiscard]] std::string text_of(const EndReason& end);

// Returns the pause before the attempt that follows `failures` failed attempts.
[[nodiscard]] Seconds pause_after(const Retries& retries, int failures);

}  // namespace combu::schedule
