#pragma once
// The preparation of a run before its beginning is recorded: checks it, and makes images, networks and
// folders ready.

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

// The errors of all checks; if there are none, those of making images, networks and folders ready.
[[nodiscard]] std::vector<Error> make_ready(Session& session, const Loaded& loaded, const RunOptions& options,
                                            Prepared& prepared);

// Whether running containers of the experiment's earlier runs are removed.
enum class Earlier { refuse, replace };

// A run that is ready to begin.
struct Readiness {
  std::unique_ptr<RunLock> starts;  // held until nothing is left to start; nullptr if it could not be taken
  Facts facts;                      // of the engine, asked for once
  std::optional<Capacity> capacity;
  std::set<RunId> replaced;
  Prepared prepared;
};
// If the run must not begin, shows the errors and returns their result. Changes nothing on the record, and no
// container. Throws Error.
[[nodiscard]] std::variant<Readiness, Result> prepare_run(Session& session, const Loaded& loaded,
                                                          const RunOptions& options, Earlier earlier);

// Shows why nothing was started.
[[nodiscard]] Result refuse_start(Session& session, const std::vector<Error>& errors);

}  // namespace combu
