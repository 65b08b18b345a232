#include "cli/timestamp_option.hpp"

#include <fmt/format.h>

#include <chrono>

namespace combu {

Instant timestamp_option(const std::string& option, std::string_view text, Instant now) {
  if (const auto timestamp = parse_timestamp(text)) return *timestamp;
  if (!text.empty() && text.find_first_not_of("0123456789.") == std::string_view::npos)
    throw Error(ErrorKind::invalid, option,
                fmt::format("{0} needs a unit: {0}d, {0}h, {0}m or {0}s", shortened(text)));
  try {
    return now - std::chrono::duration_cast<Instant::duration>(parse_duration(text));
  } catch (const Error&) {
    throw Error(
        ErrorKind::invalid, option,
        fmt::format("must be a duration such as 10m, or a moment such as 2026-01-31T12:00:00Z, not '{}'",
                    text));
  }
}

}  // namespace combu
