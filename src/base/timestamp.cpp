#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <regex>
#include <string>

#include "combu/base.hpp"

namespace combu {
namespace {

int number(const std::csub_match& match) {
  int value = 0;
  std::from_chars(match.first, match.second, value);
  return value;
}

}  // namespace

std::optional<Instant> parse_timestamp(std::string_view text) {
  static const std::regex k_form(
      R"((\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d):(\d\d)(\.\d{1,9})?(?:[Zz]|([+-])(\d\d):(\d\d)))?)");
  std::cmatch part;
  if (!std::regex_match(text.data(), text.data() + text.size(), part, k_form)) return std::nullopt;
  using namespace std::chrono;
  const year_month_day day{year(number(part[1])), month(static_cast<unsigned>(number(part[2]))),
                           std::chrono::day(static_cast<unsigned>(number(part[3])))};
  const int hour = number(part[4]);
  const int minute = number(part[5]);
  const int second = number(part[6]);
  // first and last whole year in the range of a 64-bit count of nanoseconds since 1970
  constexpr int k_year_min = 1678;
  constexpr int k_year_max = 2261;
  if (day.year() < year(k_year_min) || day.year() > year(k_year_max)) return std::nullopt;
  if (!day.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  const Seconds fraction(part[7].matched ? std::stod(part[7].str()) : 0);
  const minutes offset = hours(number(part[9])) + minutes(number(part[10]));
  const sys_seconds whole = sys_days(day) + hours(hour) + minutes(minute) + seconds(second) -
                            (part[8].str() == "-" ? -offset : offset);
  return whole + duration_cast<Instant::duration>(fraction);
}

Instant file_time(std::int64_t seconds, std::int64_t nanoseconds) {
  // one second less than Instant's limit, so that the nanoseconds can be added
  constexpr std::int64_t k_seconds_max = 9'223'372'035;
  constexpr std::int64_t k_nanoseconds_max = 999'999'999;
  if (seconds < -k_seconds_max || seconds > k_seconds_max) nanoseconds = 0;
  return Instant(std::chrono::seconds(std::clamp(seconds, -k_seconds_max, k_seconds_max)) +
                 std::chrono::nanoseconds(std::clamp<std::int64_t>(nanoseconds, 0, k_nanoseconds_max)));
}

}  // namespace combu
