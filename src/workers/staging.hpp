#pragma once
// Inputs that all attempts of a worker share, on an engine that does not copy files.

#include <stop_token>
#include <string>
#include <vector>

#include "combu/engine.hpp"

namespace combu::workers {

// Copies the inputs of `container` into the running container of the attempt, which has the agent's program.
// Returns the content_digest() of each input. Repeatable. Throws Error: refused if an input cannot be read or
// written, unavailable if the connection breaks or makes no progress for `silence_max`, cancelled.
[[nodiscard]] std::vector<std::string> stage_inputs(Engine& engine, const Key& key, const Trial& container,
                                                    Seconds silence_max, const std::stop_token& stop);

}  // namespace combu::workers
