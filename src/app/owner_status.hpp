#pragma once
// Requests the settings or a snapshot of a run from the run's owner, over the run's channel.

#include <optional>

#include "combu/run.hpp"
#include "combu/schedule.hpp"
#include "combu/workspace.hpp"

namespace combu {

// Returns the owner's settings of the run; nullopt if no owner answers the request within ten seconds.
[[nodiscard]] std::optional<Settings> owner_settings(const RunId& run, const Caller& caller);

// Returns the owner's snapshot of the run; nullopt if no snapshot arrives within two seconds.
[[nodiscard]] std::optional<Snapshot> owner_snapshot(const RunId& run, const Caller& caller);

}  // namespace combu
