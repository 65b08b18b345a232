#pragma once
// Waits until trials have ended. Reconciles runs that have no owner (app/reconcile.hpp).

#include <functional>

#include "combu/analysis.hpp"
#include "combu/session.hpp"

namespace combu {

// A function that wait() calls when a trial has ended, with the trial's last attempt and row. The call runs
// in a thread that wait() has started.
using OnEnd = std::function<void(const Observation& attempt, const TrialRow& row)>;

// Calls `on_end` once for each trial. Returns `failed` if any trial was unsuccessful.
[[nodiscard]] Result wait(Session& session, const Invocation& invocation, SelectionOptions selection,
                          const OnEnd& on_end);

}  // namespace combu
