#pragma once
// What is said to the engine of one attempt: the body of POST /containers/create.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "combu/engine.hpp"

namespace combu::docker {

// From this API version on a container can be given several networks when it is created; before, the others
// are connected afterwards (moby: docs/api/version-history.md, v1.44).
enum class NetworksAtCreate { first, all };

// The trial's `docker` section has passed check_docker_sections().
[[nodiscard]] nlohmann::json container_json(const Run& run, const Trial& trial, int attempt,
                                            NetworksAtCreate networks);

// "host", "none", "bridge", "default": the engine's own, never made and never removed.
[[nodiscard]] bool is_engines_own_network(const std::string& name);

// How a trial is attached to one of its networks. On a network of its own kind others reach it by its name.
[[nodiscard]] nlohmann::json endpoint_json(const Trial& trial, const std::string& network);

}  // namespace combu::docker
