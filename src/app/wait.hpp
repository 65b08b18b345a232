#pragma once
// Waits until trials are over. Reconciles runs that have no owner (app/reconcile.hpp).

#include <functional>

#include "combu/analysis.hpp"
#include "combu/session.hpp"

namespace combu {

// Reports that a trial is over, with its last attempt and its row. Called from a thread of wait().
using TellEnd = std::function<void(const Observation& attempt, const TrialRow& row)>;

// Calls `tell` once for each trial. Returns `failed` if any trial was unsuccessful.
[[nodiscard]] Result wait(Session& session, const Invocation& invocation, SelectionOptions selection,
                          const TellEnd& tell);

}  // namespace combu
