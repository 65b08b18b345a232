#pragma once
// Parses the states of containers in Docker's listings.

#include <optional>
#include <string_view>

#include "combu/engine.hpp"

namespace combu::docker {

struct Status {
  Phase phase = Phase::created;
  Health health = Health::none;
  std::optional<int> exit_code;
};

// `state`: the field State of a listed container, such as "running". `text`: the field Status of that
// container, such as "Up 3 seconds (healthy)" or "Exited (137) 2 hours ago". An unknown state is taken as
// ended, so that combu never waits for such a container. Source: moby, container/state.go.
[[nodiscard]] Status parse_status(std::string_view state, std::string_view text);

// Parses "healthy", "unhealthy" and "starting"; returns none for other words.
[[nodiscard]] Health parse_health(std::string_view word);

}  // namespace combu::docker
