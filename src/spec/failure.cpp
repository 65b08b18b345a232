#include "spec/failure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spec/fields.hpp"
#include "spec/values.hpp"

namespace combu {

namespace {

constexpr std::array<std::string_view, k_cause_count> k_causes{
    "none", "error", "oom", "timeout", "start_deadline", "host_lost", "start", "stopped", "outputs"};

}  // namespace

std::string_view to_string(Cause cause) {
  return k_causes.at(static_cast<std::size_t>(cause));
}

bool same(Trial one, Trial other) {
  for (Trial* trial : {&one, &other}) {
    trial->path.clear();
    trial->env_fault.clear();
    for (Depend& depend : trial->depends) depend.path.clear();
    for (Volume& volume : trial->container.volumes) volume.path.clear();
    for (Input& input : trial->inputs) input.path.clear();
    std::vector<Secret> secrets = *trial->container.secrets;
    for (Secret& secret : secrets) secret.path.clear();
    trial->container.secrets = std::move(secrets);
  }
  return one == other;
}

std::string canary_shape(const Trial& trial) {
  std::string shape = trial.image;
  const auto add = [&](const std::optional<std::vector<std::string>>& words) {
    shape += '\0';
    if (!words) return;
    for (std::size_t i = 0; i < words->size(); ++i) {
      const std::string_view word = (*words)[i];
      const bool is_option = word.starts_with('-');
      if (i == 0) shape += word;
      if (i > 0 && is_option) shape += word.substr(0, word.find('='));
      shape += ' ';
    }
  };
  add(trial.process.entrypoint);
  add(trial.process.cmd);
  return shape;
}

namespace spec {
namespace {

constexpr std::array k_retries_fields{Spelling{"max", "max"}, Spelling{"backoff", "backoff"},
                                      Spelling{"on", "on"}, Spelling{"grow", "grow"}};
constexpr std::array k_backoff_fields{Spelling{"initial", "initial"}, Spelling{"factor", "factor"},
                                      Spelling{"max", "max"}};
constexpr std::array k_grow_fields{Spelling{"memory", "memory"}};

// The causes that the field `on` of `retries` may name. A stopped trial is never retried.
constexpr std::array k_retried{Cause::error,     Cause::oom,   Cause::timeout, Cause::start_deadline,
                               Cause::host_lost, Cause::start, Cause::outputs};

std::bitset<k_cause_count> all_retried() {
  std::bitset<k_cause_count> causes;
  for (const Cause cause : k_retried) causes.set(static_cast<std::size_t>(cause));
  return causes;
}

std::bitset<k_cause_count> read_causes(const Json& value, const Place& place, Report& report) {
  std::vector<std::string_view> words;
  words.reserve(k_retried.size());
  for (const Cause cause : k_retried) words.push_back(to_string(cause));
  std::bitset<k_cause_count> causes;
  read_list(value, "causes", place, report, [&](const Json& element, const Place& here) {
    const auto word = read_string(element, here, report);
    if (!word) return;
    const auto found = std::ranges::find(words, *word);
    if (found != words.end()) {
      causes.set(static_cast<std::size_t>(k_retried.at(static_cast<std::size_t>(found - words.begin()))));
      return;
    }
    const auto meant = nearest(*word, words);
    report.add(here, meant
                         ? fmt::format(R"(unknown cause "{}": did you mean "{}"?)", shortened(*word), *meant)
                         : fmt::format("unknown cause \"{}\"; known causes: {}", shortened(*word),
                                       fmt::join(words, ", ")));
  });
  return causes;
}

double read_factor(const Json& value, const Place& place, Report& report) {
  constexpr double k_factor_max = 1000;
  if (value.is_number() && value >= 1 && value <= k_factor_max) return value.get<double>();
  report.add(place, fmt::format("must be a number from 1 to {}, not {}", k_factor_max, shown(value)));
  return 1;
}

// Returns the fields of the object `value`. If `value` is not an object, reports an error and returns
// nullopt.
std::optional<Section> read_section(const Json& value, std::span<const Spelling> fields,
                                    std::string_view wanted, const Place& place, Report& report) {
  if (value.is_object()) return Section(value, fields, place, report);
  report.add(place, fmt::format("must be {}, not {}", wanted, shown(value)));
  return std::nullopt;
}

void read_backoff(const Json& value, const Place& place, Report& report, Retries& retries) {
  const auto section = read_section(value, k_backoff_fields, "{initial, factor, max}", place, report);
  if (!section) return;
  if (const Json* initial = section->find("initial"))
    retries.pause = read_duration(*initial, place.key("initial"), report).value_or(retries.pause);
  if (const Json* factor = section->find("factor"))
    retries.factor = read_factor(*factor, place.key("factor"), report);
  const Json* most = section->find("max");
  if (most == nullptr) {
    retries.pause_max = std::max(retries.pause_max, retries.pause);
    return;
  }
  retries.pause_max = read_duration(*most, place.key("max"), report).value_or(retries.pause_max);
  if (section->find("initial") != nullptr && retries.pause_max < retries.pause)
    report.add(place.key("max"), fmt::format("must be at least `initial` ({}), not {}",
                                             to_string(retries.pause), to_string(retries.pause_max)));
}

}  // namespace

Retries read_retries(const Json& value, const Place& place, Report& report) {
  Retries retries{.on = all_retried()};
  if (value.is_number()) {
    retries.max = static_cast<int>(read_count(value, place, report).value_or(0));
    return retries;
  }
  const auto section =
      read_section(value, k_retries_fields, "a whole number or {max, backoff, on, grow}", place, report);
  if (!section) return retries;
  if (const Json* most = section->find("max")) {
    retries.max = static_cast<int>(read_count(*most, place.key("max"), report).value_or(0));
  } else if (section->lacks("max")) {
    report.add(place.key("max"), "missing: the number of retries");
  }
  if (const Json* backoff = section->find("backoff"))
    read_backoff(*backoff, place.key("backoff"), report, retries);
  if (const Json* on = section->find("on")) {
    retries.on = read_causes(*on, place.key("on"), report);
    if (on->is_array() && on->empty())
      report.add(place.key("on"),
                 "must name at least one cause; leave the field out to retry after every cause");
  }
  if (const Json* grow = section->find("grow")) {
    const Place here = place.key("grow");
    const auto grown = read_section(*grow, k_grow_fields, "{memory: a factor}", here, report);
    const Json* memory = grown ? grown->find("memory") : nullptr;
    if (memory != nullptr) retries.grow_memory = read_factor(*memory, here.key("memory"), report);
    if (retries.on.any() && !retries.on.test(static_cast<std::size_t>(Cause::oom)))
      report.add(here, "has no effect: `on` must include \"oom\"");
  }
  return retries;
}

Seconds read_limit(const Json& value, const Place& place, Report& report) {
  const auto limit = read_duration(value, place, report);
  if (limit && limit->count() == 0)
    report.add(place, "must be more than 0; leave the field out for no limit");
  return limit.value_or(Seconds(0));
}

std::size_t MaxFailures::of(std::size_t count) const {
  if (percent > 0) return static_cast<std::size_t>(std::ceil(static_cast<double>(count) * percent / 100));
  return trials;
}

MaxFailures read_max_failures(const Json& value, const Place& place, Report& report) {
  MaxFailures most;
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const auto percent =
        text.ends_with('%') ? parse_number<double>({text.data(), text.size() - 1}) : std::nullopt;
    if (percent && *percent > 0 && *percent <= 100) return {.percent = *percent};
    report.add(place, fmt::format(R"(must be a number of trials or a percentage such as "10%", not "{}")",
                                  shortened(text)));
    return {};
  }
  most.trials = read_limit_count(value, place, report).value_or(0);
  return most;
}

}  // namespace spec
}  // namespace combu
