#pragma once

#include <string_view>

#include "combu/base.hpp"

namespace combu {

// A moment: a duration before `now` ("10m", "1h30m"), or RFC 3339 ("2026-01-31T12:00:00Z",
// "2026-01-31T13:00:00.5+01:00", a date alone is its beginning in UTC). Throws Error(invalid).
[[nodiscard]] Instant parse_moment(std::string_view text, Instant now);

}  // namespace combu
