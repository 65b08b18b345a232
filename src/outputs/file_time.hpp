#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "combu/base.hpp"

namespace combu::outputs {

// A file's time, since 1970. An Instant reaches from 1677 to 2262: a time beyond becomes the first or the
// last second that it holds.
[[nodiscard]] inline Instant file_time(std::int64_t seconds, std::int64_t nanoseconds) {
  constexpr std::int64_t k_seconds_max = 9'223'372'035;  // so that its nanoseconds fit, too
  constexpr std::int64_t k_nanoseconds_max = 999'999'999;
  if (seconds < -k_seconds_max || seconds > k_seconds_max) nanoseconds = 0;
  return Instant(std::chrono::seconds(std::clamp(seconds, -k_seconds_max, k_seconds_max)) +
                 std::chrono::nanoseconds(std::clamp<std::int64_t>(nanoseconds, 0, k_nanoseconds_max)));
}

}  // namespace combu::outputs
