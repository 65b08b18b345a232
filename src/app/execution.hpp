#pragma once
// Drives a run that is on record as begun: starts, observes and records the trials until the run is over or
// interrupted. `run`, `run --resume`, `retry` and `apply` use it.

#include <optional>

#include "app/load.hpp"
#include "app/preparation.hpp"
#include "app/resume_point.hpp"
#include "app/run_options.hpp"
#include "app/run_owner.hpp"
#include "combu/record.hpp"
#include "combu/session.hpp"

namespace combu {

struct DrivenRun {
  Session& session;
  Record& record;
  Loaded& loaded;  // execute() fills in its host paths
  const RunOptions& options;
  RunOwner& owner;  // begin() has been called
};
// Drives the run and returns its result. `resume_point`: nullopt for a new run. Throws Error.
[[nodiscard]] Result execute(const DrivenRun& run, Readiness ready,
                             const std::optional<ResumePoint>& resume_point);

}  // namespace combu
