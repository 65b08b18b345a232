#include "spec/values.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "combu/spec.hpp"

namespace combu::spec {

namespace {

// Arguments, variables and paths of a process cannot contain NUL.
bool free_of_nul(std::string_view text, const Place& place, Report& report) {
  if (text.find('\0') == std::string_view::npos) return true;
  report.add(place, "must not contain a NUL character");
  return false;
}

}  // namespace

std::optional<std::string> read_string(const Json& value, const Place& place, Report& report) {
  if (!value.is_string()) {
    report.add(place, fmt::format("must be a string, not {}", kind_of(value)));
    return std::nullopt;
  }
  const auto& text = value.get_ref<const std::string&>();
  return free_of_nul(text, place, report) ? std::optional(text) : std::nullopt;
}

std::optional<std::string> read_text(const Json& value, const Place& place, Report& report) {
  auto text = scalar_text(value);
  if (!text)
    report.add(place, fmt::format("must be a string, a number or a boolean, not {}", kind_of(value)));
  return text && free_of_nul(*text, place, report) ? text : std::nullopt;
}

std::optional<bool> read_flag(const Json& value, const Place& place, Report& report) {
  if (value.is_boolean()) return value.get<bool>();
  report.add(place, fmt::format("must be true or false, not {}", shown(value)));
  return std::nullopt;
}

std::string plain_number(const Json& number) {
  return number.is_number_integer() ? json_text(number) : fmt::format("{:.9f}", number.get<double>());
}

bool is_out_of_bounds(const Json& value) {
  constexpr double k_beyond_all = 1e19;
  return value.is_number() && std::abs(value.get<double>()) >= k_beyond_all;
}

std::optional<Seconds> read_duration(const Json& value, const Place& place, Report& report) {
  return read_unit<Seconds>(value, "a duration such as \"90s\" or a number of seconds", parse_duration, place,
                            report);
}

std::optional<Seconds> read_lifetime(const Json& value, const Place& place, Report& report) {
  constexpr Seconds k_lifetime_min{1};
  const auto lifetime = read_duration(value, place, report);
  if (!lifetime || *lifetime >= k_lifetime_min) return lifetime;
  report.add(place, "must be at least 1s");
  return std::nullopt;
}

namespace {

std::optional<std::uint32_t> read_count_from(int least, const Json& value, const Place& place,
                                             Report& report) {
  constexpr std::int64_t k_count_max = std::numeric_limits<std::int32_t>::max();
  // The condition also rejects numbers of 2^63 and more. The JSON library stores them as floats, or as
  // unsigned numbers. `value >= least` converts an unsigned number to a signed one, which is then negative.
  if (value.is_number_integer() && value >= least && value <= k_count_max) return value.get<std::uint32_t>();
  report.add(place,
             fmt::format("must be a whole number from {} to {}, not {}", least, k_count_max, shown(value)));
  return std::nullopt;
}

}  // namespace

std::optional<std::uint32_t> read_count(const Json& value, const Place& place, Report& report) {
  return read_count_from(0, value, place, report);
}

std::optional<std::uint32_t> read_limit_count(const Json& value, const Place& place, Report& report) {
  if (value != 0) return read_count_from(1, value, place, report);
  report.add(place, "must be at least 1; leave the field out for no limit");
  return std::nullopt;
}

std::optional<int> read_integer(const Json& value, const Place& place, Report& report) {
  constexpr std::int64_t k_most = std::numeric_limits<std::int32_t>::max();
  if (value.is_number_integer() && value >= -k_most && value <= k_most) return value.get<int>();
  report.add(place,
             fmt::format("must be a whole number from {} to {}, not {}", -k_most, k_most, shown(value)));
  return std::nullopt;
}

std::optional<std::size_t> read_choice(const Json& value, std::initializer_list<std::string_view> words,
                                       const Place& place, Report& report) {
  if (value.is_string()) {
    std::size_t index = 0;
    for (const std::string_view word : words) {
      if (value.get_ref<const std::string&>() == word) return index;
      ++index;
    }
  }
  report.add(place, fmt::format("must be one of \"{}\", not {}", fmt::join(words, "\", \""), shown(value)));
  return std::nullopt;
}

std::optional<std::vector<std::string>> read_words(const Json& value, const Place& place, Report& report) {
  if (value.is_string()) {
    const auto line = read_string(value, place, report);
    if (!line) return std::nullopt;
    try {
      return split_words(*line);
    } catch (const Error& error) {
      report.add(place, error.message());
      return std::nullopt;
    }
  }
  if (!value.is_array()) {
    report.add(place, fmt::format("must be a string or an array of strings, not {}", kind_of(value)));
    return std::nullopt;
  }
  std::vector<std::string> words;
  std::size_t index = 0;
  for (const Json& element : value) {
    if (auto word = read_text(element, place.index(index++), report)) words.push_back(std::move(*word));
  }
  return words;
}

}  // namespace combu::spec
