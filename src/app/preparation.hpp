#pragma once
// Checks a run, and prepares its images, networks and folders, before the beginning of the run is recorded.

#include <memory>
#include <optional>
#include <set>
#include <variant>
#include <vector>

#include "app/capacity.hpp"
#include "app/load.hpp"
#include "app/run_options.hpp"
#include "app/run_owner.hpp"
#include "combu/session.hpp"

namespace combu {

struct Prepared {
  Seconds took{0};
  Digests digests;
  Digests references;
};

// Runs all checks, and reads the secrets of `loaded`. If a check finds errors, returns all these errors.
// Otherwise prepares images, networks and folders, sets `prepared`, and returns the errors of the
// preparation.
[[nodiscard]] std::vector<Error> make_ready(Session& session, Loaded& loaded, const RunOptions& options,
                                            Prepared& prepared);

// The treatment of running containers of earlier runs: refuse the new run, or remove the containers.
enum class Earlier { refuse, replace };

// A run that is ready to begin.
struct Readiness {
  // the run's `starts` lock, held until no trial is left to start; nullptr: no lock
  std::unique_ptr<RunLock> starts;
  Facts facts;  // the result of Engine::facts()
  std::optional<Capacity> capacity;
  std::set<RunId> replaced;
  Prepared prepared;
};
// Checks and prepares a run, and reads its secrets. If the run must not begin, shows the errors and returns
// the Result that matches them. Changes neither the record nor a container. Throws Error.
[[nodiscard]] std::variant<Readiness, Result> prepare_run(Session& session, Loaded& loaded,
                                                          const RunOptions& options, Earlier earlier);

// Shows the errors and a note that nothing was started. Returns the Result that matches the errors.
[[nodiscard]] Result refuse_start(Session& session, const std::vector<Error>& errors);

}  // namespace combu
