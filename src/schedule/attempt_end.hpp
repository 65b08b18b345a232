#pragma once

#include <optional>
#include <string>

#include "combu/schedule.hpp"

namespace combu::schedule {

// The end of an attempt. combu keeps these data until the outputs are collected, and then decides the trial's
// next state.
struct AttemptEnd {
  TrialState as = TrialState::failed;  // succeeded, stopped or failed; a `failed` attempt may be retried
  Cause cause = Cause::none;           // if failed
  std::optional<int> exit_code;
  std::string reason;
  Stopper stopper = Stopper::none;  // `stopper` and `outputs_fault` mean the same as in EndDetails
  std::string outputs_fault = {};
  Break engine = Break::unknown;
  std::optional<Instant> at;  // when the attempt ended, by the engine's clock
};

[[nodiscard]] inline EndDetails details_of(const AttemptEnd& end) {
  return {.stopper = end.stopper, .outputs_fault = end.outputs_fault};
}

}  // namespace combu::schedule
