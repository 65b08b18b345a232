#pragma once
// The slots that a run may use: those of the engine without those that --reserve keeps free.

#include <optional>
#include <vector>

#include "app/run_options.hpp"
#include "combu/engine.hpp"
#include "combu/session.hpp"
#include "combu/spec.hpp"

namespace combu {

// What a run's attempts may hold together with all others on the engine.
struct Capacity {
  Slots slots;
  std::vector<Gpu> gpus;
};

// Returns nullopt if no trial asks for slots. `facts`: those of the session's engine. Throws Error(invalid)
// for a --reserve that the engine cannot satisfy.
[[nodiscard]] std::optional<Capacity> capacity_for(Session& session, const Facts& facts,
                                                   const Experiment& experiment, const RunOptions& options);

}  // namespace combu
