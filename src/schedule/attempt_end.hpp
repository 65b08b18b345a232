#pragma once

#include <optional>
#include <string>

#include "combu/schedule.hpp"

namespace combu::schedule {

// What the end of an attempt means for its trial, once its outputs are collected.
struct AttemptEnd {
  TrialState as = TrialState::failed;  // succeeded, stopped, or failed; a failed one may be tried again
  Cause cause = Cause::none;           // of a failure
  std::optional<int> exit_code;
  std::string reason;
  Stopper stopper = Stopper::none;  // as in EndDetails, like the next one
  std::string outputs_fault = {};
  Break engine = Break::unknown;
  std::optional<Instant> at;  // by the engine's clock
};

[[nodiscard]] inline EndDetails details_of(const AttemptEnd& end) {
  return {.stopper = end.stopper, .outputs_fault = end.outputs_fault};
}

}  // namespace combu::schedule
