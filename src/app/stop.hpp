#pragma once
// Stops running attempts; their containers stay.

#include <functional>
#include <optional>

#include "combu/session.hpp"

namespace combu {

struct StopOptions {
  SelectionOptions selection;
  std::optional<Seconds> grace;  // nullopt: the grace period of each trial
  // stop() calls this function for each attempt, one call at a time. The error is nullopt if the attempt was
  // stopped.
  std::function<void(const Observation&, const std::optional<Error>&)> on_stopped;
};
[[nodiscard]] Result stop(Session& session, const Invocation& invocation, const StopOptions& options);

}  // namespace combu
