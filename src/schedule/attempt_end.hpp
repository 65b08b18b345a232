#pragma once

#include <optional>
#include <string>

#include "combu/schedule.hpp"

namespace combu::schedule {

// The end of an attempt, as the trial's next transition needs it after the outputs are collected.
struct AttemptEnd {
  TrialState as = TrialState::failed;  // succeeded, stopped or failed; a failed attempt may be retried
  Cause cause = Cause::none;           // if failed
  std::optional<int> exit_code;
  std::string reason;
  Stopper stopper = Stopper::none;  // like `outputs_fault`: as in EndDetails
  std::string outputs_fault = {};
  Break engine = Break::unknown;
  std::optional<Instant> at;  // by the engine's clock
};

[[nodiscard]] inline EndDetails details_of(const AttemptEnd& end) {
  return {.stopper = end.stopper, .outputs_fault = end.outputs_fault};
}

}  // namespace combu::schedule
