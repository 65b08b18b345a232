#include "spec/healthcheck.hpp"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spec/fields.hpp"
#include "spec/values.hpp"

namespace combu::spec {

namespace {

constexpr std::array k_healthcheck_fields{
    Spelling{"test", "test"},       Spelling{"interval", "interval"},         Spelling{"timeout", "timeout"},
    Spelling{"retries", "retries"}, Spelling{"start_period", "start_period"}, Spelling{"disable", "disable"}};

std::vector<std::string> no_check() {
  return {"NONE"};
}

std::optional<std::vector<std::string>> read_test(const Json& value, const Place& place, Report& report) {
  if (value.is_string()) {
    auto line = read_string(value, place, report);
    if (!line) return std::nullopt;
    if (*line == "NONE") return no_check();
    if (!line->empty()) return std::vector<std::string>{"CMD-SHELL", std::move(*line)};
    report.add(place, "is empty; give a command, or \"NONE\" for no check");
    return std::nullopt;
  }
  auto words = read_words(value, place, report);
  if (!words || words->size() != value.size()) return std::nullopt;
  const std::string_view first = words->empty() ? "" : std::string_view(words->front());
  const bool command = (first == "CMD" || first == "CMD-SHELL") && words->size() > 1;
  if (command || *words == no_check()) return words;
  report.add(place,
             "must be \"CMD\" or \"CMD-SHELL\" followed by a command, or [\"NONE\"]; "
             "a string is run by the container's shell");
  return std::nullopt;
}

Seconds read_span(const Section& section, std::string_view name, const Place& place, Report& report) {
  const Json* value = section.find(name);
  if (value == nullptr) return Seconds{0};
  const auto span = read_duration(*value, place.key(name), report);
  // The engine also refuses a duration below 1 ms ("cannot be less than 1ms").
  if (span && span->count() > 0 && *span < std::chrono::milliseconds(1)) {
    report.add(place.key(name), "must be 0 or at least 1ms");
    return Seconds{0};
  }
  return span.value_or(Seconds{0});
}

}  // namespace

Rare<Healthcheck> read_healthcheck(const Json& value, const Place& place, Report& report) {
  Healthcheck check;
  if (value == "NONE") {
    check.test = no_check();
    return check;
  }
  if (!value.is_object()) {
    report.add(place, fmt::format("must be {{test, interval, …}} or \"NONE\", not {}", shown(value)));
    return {};
  }
  const Section section(value, k_healthcheck_fields, place, report);
  if (const Json* test = section.find("test")) {
    if (auto words = read_test(*test, place.key("test"), report)) check.test = std::move(*words);
  }
  if (const Json* disable = section.find("disable");
      disable != nullptr && read_flag(*disable, place.key("disable"), report).value_or(false))
    check.test = no_check();
  check.interval = read_span(section, "interval", place, report);
  check.timeout = read_span(section, "timeout", place, report);
  check.start_period = read_span(section, "start_period", place, report);
  if (const Json* retries = section.find("retries")) {
    check.retries = static_cast<int>(read_count(*retries, place.key("retries"), report).value_or(0));
  }
  return check;
}

}  // namespace combu::spec
