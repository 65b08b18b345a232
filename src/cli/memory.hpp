#pragma once
// What has been done before, by the record: see Memory in run.hpp.

#include <memory>

#include "cli/load.hpp"
#include "cli/session.hpp"
#include "combu/outputs.hpp"
#include "combu/record.hpp"
#include "combu/run.hpp"
#include "combu/telemetry.hpp"

namespace combu {

enum class Recall {
  done,  // what has been done is not done again
  none,  // all is done again, and known from here on
};

// Whether any of its trials is to be looked for among what has been done.
[[nodiscard]] bool any_cached(const Experiment& experiment);

// `digests`: of the images that the trials are started from, as far as they are not on record. `depot`: where
// outputs come home to. `telemetry`: the run's, which may be missing. They outlive it, and so does `loaded`.
// Opens the record for itself.
[[nodiscard]] std::unique_ptr<Memory> open_memory(Session& session, const Loaded& loaded, Digests digests,
                                                  Depot& depot, Telemetry* telemetry, Recall recall);

}  // namespace combu
