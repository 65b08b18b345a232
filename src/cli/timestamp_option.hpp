#pragma once

#include <string>
#include <string_view>

#include "combu/base.hpp"

namespace combu {

// Parses an option's value: a duration before `now`, such as "10m" or "1h30m", or a moment that
// parse_timestamp() accepts. If the value is neither, throws Error(invalid) with the option's name as
// subject.
[[nodiscard]] Instant timestamp_option(const std::string& option, std::string_view text, Instant now);

}  // namespace combu
