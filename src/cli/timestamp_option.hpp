#pragma once

#include <string>
#include <string_view>

#include "combu/base.hpp"

namespace combu {

// A duration before `now` ("10m", "1h30m"; its unit is not to be guessed), or a moment as parse_timestamp()
// takes it. Throws Error(invalid), of the option.
[[nodiscard]] Instant timestamp_option(const std::string& option, std::string_view text, Instant now);

}  // namespace combu
