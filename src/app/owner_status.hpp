#pragma once
// Questions to the process that drives a run, by the run's channel. An answer takes at most about ten
// seconds.

#include <optional>

#include "combu/run.hpp"
#include "combu/schedule.hpp"
#include "combu/workspace.hpp"

namespace combu {

// The run's settings, as its process has them; nullopt: no process answers.
[[nodiscard]] std::optional<Settings> owner_settings(const RunId& run, const Caller& caller);

// The run's snapshot, as its process tells it to those who follow; nullopt: none came within two seconds.
[[nodiscard]] std::optional<Snapshot> owner_snapshot(const RunId& run, const Caller& caller);

}  // namespace combu
