#pragma once

#include <string>
#include <string_view>

#include "combu/base.hpp"

namespace combu {

// Parses an option's value: a duration before `now` with its unit ("10m", "1h30m"), or a time as accepted by
// parse_timestamp(). If the value is neither, throws Error(invalid) with the option's name as subject.
[[nodiscard]] Instant timestamp_option(const std::string& option, std::string_view text, Instant now);

}  // namespace combu
