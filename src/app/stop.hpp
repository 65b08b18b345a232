#pragma once
// Stops running attempts; their containers stay.

#include <functional>
#include <optional>

#include "combu/session.hpp"

namespace combu {

struct StopOptions {
  SelectionOptions selection;
  std::optional<Seconds> grace;  // nullopt: each trial's own
  // Called for each attempt, one after the other: it was stopped, or why it could not be.
  std::function<void(const Observation&, const std::optional<Error>&)> tell;
};
[[nodiscard]] Result stop(Session& session, const Invocation& invocation, const StopOptions& options);

}  // namespace combu
