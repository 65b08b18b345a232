#pragma once

#include <algorithm>
#include <cstdint>

#include "combu/base.hpp"

namespace combu {

// combu first polls an attempt when the attempt has run for ReadingPace::polled_after, and then at growing
// intervals.
inline constexpr double k_poll_factor = 1.5;
inline constexpr Seconds k_poll_pause_max{60};
// If a log grew by more than k_poll_brings_max between two polls, combu shortens the next pause. Otherwise
// the engine might rotate the log and drop lines before combu reads them.
inline constexpr Bytes k_poll_brings_max{std::int64_t{256} << 10};
inline constexpr Seconds k_poll_pause_min{0.25};
// Maximum share of one thread's time that the polls of one attempt take.
inline constexpr double k_poll_share_max = 0.05;

// Returns the pause before the next poll of an attempt. `pause`: the pause before the last poll. `brought`:
// growth of the log between the last two polls. `took`: the duration of the last poll.
[[nodiscard]] inline Seconds poll_pause(Seconds pause, Bytes brought, Seconds took) {
  Seconds next = std::min(pause * k_poll_factor, k_poll_pause_max);
  if (brought > k_poll_brings_max)
    next =
        std::max(pause * (static_cast<double>(k_poll_brings_max.count) / static_cast<double>(brought.count)),
                 k_poll_pause_min);
  return std::max(next, took / k_poll_share_max);
}

}  // namespace combu
