#pragma once

#include <algorithm>
#include <cstdint>

#include "combu/base.hpp"

namespace combu {

// An attempt is looked at after a second, and then less and less often.
inline constexpr Seconds k_poll_first{1};
inline constexpr double k_poll_factor = 1.5;
inline constexpr Seconds k_poll_pause_max{60};
// A log that grows fast is looked at sooner: its engine may rotate it, and keep only the last of it.
inline constexpr Bytes k_poll_brings_max{std::int64_t{256} << 10};
inline constexpr Seconds k_poll_pause_min{0.25};
inline constexpr double k_poll_share_max = 0.05;  // of one worker's time for one attempt

// Before the next look at an attempt: after a look that was `pause` after the one before, took so long, and
// brought so much of its log.
[[nodiscard]] inline Seconds poll_pause(Seconds pause, Bytes brought, Seconds took) {
  Seconds next = std::min(pause * k_poll_factor, k_poll_pause_max);
  if (brought > k_poll_brings_max)
    next =
        std::max(pause * (static_cast<double>(k_poll_brings_max.count) / static_cast<double>(brought.count)),
                 k_poll_pause_min);
  return std::max(next, took / k_poll_share_max);
}

}  // namespace combu
