#pragma once
// Waits until trials are over. Reconciles: of runs that no process is at work on it puts on record what has
// ended (app/reconcile.hpp).

#include <functional>

#include "combu/analysis.hpp"
#include "combu/session.hpp"

namespace combu {

// A trial is over: its last attempt, and its row. Called from a thread of wait().
using TellEnd = std::function<void(const Observation& attempt, const TrialRow& row)>;

// `tell` hears of each trial once. Failed if one of them was unsuccessful.
[[nodiscard]] Result wait(Session& session, const Invocation& invocation, SelectionOptions selection,
                          const TellEnd& tell);

}  // namespace combu
