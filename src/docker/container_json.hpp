#pragma once
// Makes the body of POST /containers/create, the JSON that describes an attempt to the engine.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "combu/engine.hpp"

namespace combu::docker {

// The networks that the create request contains. From API 1.44 on, the request can contain all networks of a
// trial. With older API versions, the request contains the first network, and combu connects the container to
// the others afterwards (moby: docs/api/version-history.md, v1.44).
enum class NetworksAtCreate { first, all };

// Returns the body of the create request. The trial's `docker` section must have passed
// check_docker_sections().
[[nodiscard]] nlohmann::json container_json(const Run& run, const Trial& trial, int attempt,
                                            NetworksAtCreate networks);

// True for "host", "none", "bridge" and "default". The engine owns these networks; combu never creates or
// removes them.
[[nodiscard]] bool is_engines_own_network(const std::string& name);

// Returns the settings with which a trial is connected to `network`. On a network that the engine does not
// own, other containers reach the trial by its name.
[[nodiscard]] nlohmann::json endpoint_json(const Trial& trial, const std::string& network);

}  // namespace combu::docker
