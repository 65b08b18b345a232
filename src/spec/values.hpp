#pragma once
// Values of one kind. Each reader reports what is wrong at `place`, and then gives nullopt.

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
// A string, a number or a boolean, as text.
[[nodiscard]] std::optional<std::string> read_text(const Json& value, const Place& place, Report& report);
[[nodiscard]] std::optional<bool> read_flag(const Json& value, const Place& place, Report& report);
// A number without an exponent.
[[nodiscard]] std::string plain_number(const Json& number);
// A number that is more than there is of anything.
[[nodiscard]] bool is_out_of_bounds(const Json& value);
// A duration's text, or a number of seconds.
[[nodiscard]] std::optional<Seconds> read_duration(const Json& value, const Place& place, Report& report);
[[nodiscard]] std::optional<std::uint32_t> read_count(const Json& value, const Place& place, Report& report);
// The same of what is no limit when it is left out, and may not be 0.
[[nodiscard]] std::optional<std::uint32_t> read_limit_count(const Json& value, const Place& place,
                                                            Report& report);
[[nodiscard]] std::optional<int> read_integer(const Json& value, const Place& place, Report& report);
// One of the words that are allowed here, as its index.
[[nodiscard]] std::optional<std::size_t> read_choice(const Json& value,
                                                     std::initializer_list<std::string_view> words,
                                                     const Place& place, Report& report);
// A number as Jsonnet gives it, or a text, as what `parse` reads. `wanted` is said of any other kind.
template <typename Value>
[[nodiscard]] std::optional<Value> read_unit(const Json& value, std::string_view wanted,
                                             Value (*parse)(std::string_view), const Place& place,
                                             Report& report) {
  if (!value.is_string() && !value.is_number()) {
    report.add(place, "must be " + std::string(wanted) + ", not " + std::string(kind_of(value)));
    return std::nullopt;
  }
  if (is_out_of_bounds(value)) {
    report.add(place, "must be " + std::string(wanted) + ", and " + shown(value) + " is out of all bounds");
    return std::nullopt;
  }
  try {
    return parse(value.is_string() ? value.get<std::string>() : plain_number(value));
  } catch (const Error& error) {
    report.add(place, error.message());
    return std::nullopt;
  }
}

// A command's words: a string split as a shell does, or an array of texts.
[[nodiscard]] std::optional<std::vector<std::string>> read_words(const Json& value, const Place& place,
                                                                 Report& report);

// An array, or one string that stands for an array of one. What it calls `body` with: each element and its
// place.
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
