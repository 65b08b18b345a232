#pragma once
// What Docker's words in a listing mean.

#include <optional>
#include <string_view>

#include "combu/engine.hpp"

namespace combu::docker {

struct Status {
  Phase phase = Phase::created;
  Health health = Health::none;
  std::optional<int> exit_code;
};

// `state` is the State of a listed container ("running"), `text` its Status ("Up 3 seconds (healthy)",
// "Exited (137) 2 hours ago"). An unknown state counts as ended, so that it is never waited for. moby:
// container/state.go.
[[nodiscard]] Status parse_status(std::string_view state, std::string_view text);

// "healthy", "unhealthy", "starting"; none for other words.
[[nodiscard]] Health parse_health(std::string_view word);

}  // namespace combu::docker
