
#include <fmt/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "combu/json.hpp"
#include "combu/text.hpp"

namespace combu {

std::string json_string(std::string_view text) {
  const auto is_plain = [](unsigned char letter) {
    return letter >= 0x20 && letter < 0x7f && letter != '"' && letter != '\\';
  };
  if (std::ranges::all_of(text, is_plain)) return fmt::format("\"{}\"", text);
  return json_text(nlohmann::json(text));
}

std::string rfc3339(Instant instant) {
  const auto day = std::chrono::floor<std::chrono::days>(instant);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(std::chrono::floor<std::chrono::milliseconds>(instant - day));
  return fmt::format(FMT_COMPILE("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z"), static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time.hours().count(), time.minutes().count(), time.seconds().count(),
                     time.subseconds().count());
}

}  // namespace combu
