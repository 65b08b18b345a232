#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "combu/base.hpp"

namespace combu {
namespace {

struct Unit {
  std::string_view name;
  double size;
};

constexpr std::array<Unit, 7> k_time_units{
    {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}}};

constexpr double k_nano = 1e9;
constexpr double k_century_seconds = 100 * 365.25 * 86400;

// Removes a decimal number without sign and exponent from the front of `rest`. Returns the value of the
// number.
std::optional<double> take_number(std::string_view& rest) {
  const std::string_view digits = rest.substr(0, rest.find_first_not_of("0123456789."));
  double value = 0;
  const auto [end, fault] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed);
  if (fault != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  rest.remove_prefix(digits.size());
  return value;
}

std::string_view take_word(std::string_view& rest) {
  const std::string_view word = rest.substr(0, rest.find_first_of("0123456789."));
  rest.remove_prefix(word.size());
  return word;
}

[[noreturn]] void refuse_duration(std::string_view text, std::string_view why) {
  throw Error(
      ErrorKind::invalid, "",
      fmt::format(R"("{}" {}; write it like "90s", "1h30m", "500ms", or as a number of seconds)", text, why));
}

[[noreturn]] void refuse_bytes(std::string_view text, std::string_view why) {
  throw Error(ErrorKind::invalid, "",
              fmt::format(R"("{}" {}; write it like "512m", "2GiB", or as a number of bytes)", text, why));
}

// Returns log2 of the number of bytes in the unit `suffix`, as Docker reads units (docker/go-units
// RAMInBytes). A unit is one of the letters b k m g t p, followed by "b", "ib" or nothing, in upper or lower
// case. Returns nullopt if `suffix` is no unit.
std::optional<int> shift_of(std::string_view suffix) {
  std::string word;
  for (const char c : suffix) word += (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c;
  if (word.empty() || word == "b") return 0;
  constexpr std::string_view k_letters = "kmgtp";
  const auto place = k_letters.find(word.front());
  const std::string_view tail = std::string_view(word).substr(1);
  if (place == std::string_view::npos || !(tail.empty() || tail == "b" || tail == "ib")) return std::nullopt;
  return static_cast<int>(place + 1) * 10;
}

// Returns `value` as text with at most three significant digits, without trailing zeros after the decimal
// point.
std::string short_number(double value) {
  const int places = value < 9.995 ? 2 : (value < 99.95 ? 1 : 0);
  std::string text = fmt::format("{:.{}f}", value, places);
  if (places > 0) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

}  // namespace

Seconds parse_duration(std::string_view text) {
  std::string_view rest = trimmed(text);
  if (rest.empty()) refuse_duration(text, "is not a duration");
  if (rest.front() == '-') refuse_duration(text, "is negative");
  double total = 0;
  std::string_view whole = rest;
  if (const auto plain = take_number(whole); plain && whole.empty()) {
    total = *plain;
    rest = {};
  }
  while (!rest.empty()) {
    const auto value = take_number(rest);
    if (!value) refuse_duration(text, "is not a duration");
    const std::string_view word = take_word(rest);
    const Unit* found = nullptr;
    for (const Unit& unit : k_time_units) {
      if (unit.name == word) found = &unit;
    }
    if (found == nullptr) {
      refuse_duration(text, word.empty() ? "has a number without a unit"
                                         : fmt::format("has the unknown unit \"{}\"", word));
    }
    total += *value * found->size;
  }
  if (!(total <= k_century_seconds)) refuse_duration(text, "is longer than 100 years");
  return Seconds(total);
}

Bytes parse_bytes(std::string_view text) {
  std::string_view rest = trimmed(text);
  if (!rest.empty() && rest.front() == '-') refuse_bytes(text, "is negative");
  const std::string_view number = rest.substr(0, rest.find_first_not_of("0123456789."));
  const auto value = take_number(rest);
  if (!value) refuse_bytes(text, "is not a size");
  const auto shift = shift_of(trimmed(rest));
  if (!shift) refuse_bytes(text, fmt::format("has the unknown unit \"{}\"", trimmed(rest)));

  // Whole numbers are computed as integers, because a double would round numbers above 2^53.
  if (const auto whole = parse_number<std::int64_t>(number)) {
    if (*whole > (std::numeric_limits<std::int64_t>::max() >> *shift))
      refuse_bytes(text, "is 2^63 bytes or more");
    return Bytes{*whole << *shift};
  }
  const double size = std::ldexp(*value, *shift);
  if (!(size < 0x1p63)) refuse_bytes(text, "is 2^63 bytes or more");
  return Bytes{static_cast<std::int64_t>(size)};
}

Cpus parse_cpus(std::string_view text) {
  const auto refuse = [&](std::string_view why) -> Cpus {
    throw Error(ErrorKind::invalid, "", fmt::format(R"("{}" {}; write it like 2, 1.5 or "0.25")", text, why));
  };
  std::string_view rest = trimmed(text);
  if (!rest.empty() && rest.front() == '-') return refuse("is negative");
  const auto value = take_number(rest);
  if (!value || !rest.empty()) return refuse("is not a number of CPUs");
  if (*value > 1e6) return refuse("is more than a million CPUs");
  return Cpus{std::llround(*value * k_nano)};
}

std::string to_string(Cpus cpus) {
  std::string text = fmt::format("{:.9f}", static_cast<double>(cpus.nano) / k_nano);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string to_string(Seconds duration) {
  const double seconds = duration.count();
  if (seconds < 0) return "-" + to_string(-duration);
  if (seconds < 0.9995) return std::to_string(std::lrint(seconds * 1e3)) + " ms";
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  const std::int64_t minutes = std::llround(seconds / 60);
  if (minutes < std::int64_t{48} * 60) return fmt::format("{}h{:02}m", minutes / 60, minutes % 60);
  const std::int64_t hours = std::llround(seconds / 3600);
  return fmt::format("{}d{:02}h", hours / 24, hours % 24);
}

std::string to_string(Bytes bytes) {
  if (bytes.count > -1024 && bytes.count < 1024) return fmt::format("{} B", bytes.count);
  constexpr std::array<std::string_view, 6> k_names{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double size = std::fabs(static_cast<double>(bytes.count)) / 1024;
  std::size_t place = 0;
  // A size of 1023.5 or more is shown in the next larger unit, because it would be rounded to 1024 of the
  // smaller unit.
  while (size >= 1023.5 && place + 1 < k_names.size()) {
    size /= 1024;
    ++place;
  }
  return fmt::format("{}{} {}", bytes.count < 0 ? "-" : "", short_number(size), k_names.at(place));
}

}  // namespace combu
