#pragma once
// The slots that a run may use: the engine's slots minus the slots that --reserve keeps free.

#include <optional>
#include <vector>

#include "app/run_options.hpp"
#include "combu/engine.hpp"
#include "combu/session.hpp"
#include "combu/spec.hpp"

namespace combu {

// The slots that the attempts of all runs on the engine, including this run, may hold in total.
struct Capacity {
  Slots slots;
  std::vector<Gpu> gpus;
};

// Returns the slots that the run may use; nullopt if no trial requests slots or the engine places attempts.
// `facts`: the result of Engine::facts() for the session's engine. Throws Error(invalid) if --reserve is
// malformed, or if the engine has fewer slots than --reserve names.
[[nodiscard]] std::optional<Capacity> capacity_for(Session& session, const Facts& facts,
                                                   const Experiment& experiment, const RunOptions& options);

}  // namespace combu
