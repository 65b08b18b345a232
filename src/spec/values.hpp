#pragma once
// Readers of values of one type. If the value is invalid, each reader reports a fault at `place` and returns
// nullopt.

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

[[nodiscard]] std::optional<std::string> read_string(const Json& value, const Place& place, Report& report);
// Accepts a string, number or boolean and returns it as text.
[[nodiscard]] std::optional<std::string> read_text(const Json& value, const Place& place, Report& report);
[[nodiscard]] std::optional<bool> read_flag(const Json& value, const Place& place, Report& report);
// Returns a number as text without an exponent.
[[nodiscard]] std::string plain_number(const Json& number);
// True if the value is a number of magnitude 1e19 or more, which no field accepts.
[[nodiscard]] bool is_out_of_bounds(const Json& value);
// Accepts a duration as text, or a number of seconds.
[[nodiscard]] std::optional<Seconds> read_duration(const Json& value, const Place& place, Report& report);
// Like read_duration(), but the duration must be at least 1 s.
[[nodiscard]] std::optional<Seconds> read_lifetime(const Json& value, const Place& place, Report& report);
[[nodiscard]] std::optional<std::uint32_t> read_count(const Json& value, const Place& place, Report& report);
// Like read_count() for a limit: 0 is an error, because an absent field means no limit.
[[nodiscard]] std::optional<std::uint32_t> read_limit_count(const Json& value, const Place& place,
                                                            Report& report);
[[nodiscard]] std::optional<int> read_integer(const Json& value, const Place& place, Report& report);
// Accepts one of `words` and returns its index.
[[nodiscard]] std::optional<std::size_t> read_choice(const Json& value,
                                                     std::initializer_list<std::string_view> words,
                                                     const Place& place, Report& report);
// Reads a number or a string with `parse`. If the value has another type, the message describes the expected
// value by `wanted`.
template <typename Value>
[[nodiscard]] std::optional<Value> read_unit(const Json& value, std::string_view wanted,
                                             Value (*parse)(std::string_view), const Place& place,
                                             Report& report) {
  if (!value.is_string() && !value.is_number()) {
    report.add(place, "must be " + std::string(wanted) + ", not " + std::string(kind_of(value)));
    return std::nullopt;
  }
  if (is_out_of_bounds(value)) {
    report.add(place, "must be " + std::string(wanted) + ", and " + shown(value) + " is out of range");
    return std::nullopt;
  }
  try {
    return parse(value.is_string() ? value.get<std::string>() : plain_number(value));
  } catch (const Error& error) {
    report.add(place, error.message());
    return std::nullopt;
  }
}

// Reads the words of a command: a string split as a shell does, or an array of scalars.
[[nodiscard]] std::optional<std::vector<std::string>> read_words(const Json& value, const Place& place,
                                                                 Report& report);

// Calls `body` with each element of an array and its place. A string counts as an array of one element.
template <typename Body>
void read_list(const Json& value, std::string_view wanted, const Place& place, Report& report, Body body) {
  if (value.is_string()) {
    body(value, place);
  } else if (value.is_array()) {
    std::size_t index = 0;
    for (const Json& element : value) body(element, place.index(index++));
  } else {
    report.add(place, "must be an array of " + std::string(wanted) + ", not " + std::string(kind_of(value)));
  }
}

}  // namespace combu::spec
