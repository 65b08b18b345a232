#pragma once
// Drives a run: starts, observes and records the trials until the run has ended or is interrupted. The caller
// has already added the run to the record. The commands `run`, `run --resume`, `retry` and `apply` call
// execute().

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
  Loaded& loaded;  // execute() sets `loaded.run.host_paths`
  const RunOptions& options;
  RunOwner& owner;  // RunOwner::begin() must have been called
};
// Drives the run and returns its result. `resume_point`: nullopt for a new run. Throws Error.
[[nodiscard]] Result execute(const DrivenRun& run, Readiness ready,
                             const std::optional<ResumePoint>& resume_point);

}  // namespace combu
