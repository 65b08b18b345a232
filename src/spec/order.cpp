#include "spec/order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "spec/fields.hpp"
#include "spec/names.hpp"
#include "spec/values.hpp"

namespace combu::spec {

namespace {

constexpr std::array k_depend_fields{Spelling{"trial", "trial"}, Spelling{"condition", "condition"}};
constexpr std::array k_compose_depend_fields{Spelling{"condition", "condition"}};

// Returns the condition of a dependency. Reports an invalid condition and returns the default condition, so
// that the plan still checks the dependency.
Condition read_condition(const Section& section, const Place& place, Report& report) {
  const Json* value = section.find("condition");
  if (value == nullptr) return Condition::started;
  // Compose's names for combu's conditions.
  static const auto k_compose = std::to_array<std::pair<std::string_view, Condition>>(
      {{"service_started", Condition::started},
       {"service_healthy", Condition::healthy},
       {"service_completed_successfully", Condition::succeeded}});
  if (value->is_string()) {
    for (const auto& [word, condition] : k_compose) {
      if (value->get_ref<const std::string&>() == word) return condition;
    }
  }
  const auto choice =
      read_choice(*value, {"started", "healthy", "succeeded", "finished"}, place.key("condition"), report);
  return choice ? static_cast<Condition>(*choice) : Condition::started;
}

std::optional<std::string> read_trial_name(const Json& value, const Place& place, Report& report) {
  auto name = read_string(value, place, report);
  if (name && name->empty()) {
    report.add(place, "the name of a trial is empty");
    return std::nullopt;
  }
  return name;
}

std::optional<Depend> read_depend(const Json& value, const Place& place, Report& report) {
  if (value.is_string()) {
    auto name = read_trial_name(value, place, report);
    return name ? std::optional(Depend{std::move(*name), Condition::started, place.text()}) : std::nullopt;
  }
  if (!value.is_object()) {
    report.add(place, fmt::format("must be a trial's name or {{trial, condition}}, not {}", kind_of(value)));
    return std::nullopt;
  }
  const Section section(value, k_depend_fields, place, report);
  const Condition condition = read_condition(section, place, report);
  const Json* trial = section.find("trial");
  if (trial == nullptr) {
    if (section.lacks("trial")) report.add(place.key("trial"), "missing: the name of the trial to wait for");
    return std::nullopt;
  }
  auto name = read_trial_name(*trial, place.key("trial"), report);
  if (!name) return std::nullopt;
  return Depend{std::move(*name), condition, place.text()};
}

// Reads one entry of Compose's form of `depends`, a map from trial names to objects with the field
// `condition`.
std::optional<Depend> read_compose_depend(const std::string& name, const Json& value, const Place& place,
                                          Report& report) {
  if (value.is_null()) return Depend{name, Condition::started, place.text()};
  if (!value.is_object()) {
    report.add(place, fmt::format("must be {{condition}}, not {}", kind_of(value)));
    return std::nullopt;
  }
  const Section section(value, k_compose_depend_fields, place, report);
  return Depend{name, read_condition(section, place, report), place.text()};
}

bool has_content(const Json& value) {
  return !value.is_null() && !(value.is_object() && value.empty());
}

}  // namespace

std::vector<Depend> read_depends(const Json& value, const Place& place, Report& report) {
  std::vector<Depend> depends;
  const auto keep = [&](std::optional<Depend> depend) {
    if (depend) depends.push_back(std::move(*depend));
  };
  if (value.is_object()) {
    for (const auto& [name, element] : value.items()) {
      keep(read_compose_depend(name, element, place.key(name), report));
    }
  } else {
    read_list(value, "trials' names", place, report,
              [&](const Json& element, const Place& here) { keep(read_depend(element, here, report)); });
  }
  return depends;
}

std::vector<std::string> read_networks(const Json& value, const Place& place, Report& report) {
  std::vector<std::string> networks;
  std::unordered_set<std::string> known;
  const auto add = [&](const std::string& name, const Place& here) {
    if (const auto fault = fault_of_network(name)) {
      report.add(here, *fault);
    } else if (known.insert(name).second) {
      networks.push_back(name);
    } else {
      report.add(here, fmt::format("the network `{}` is named twice", shortened(name)));
    }
  };
  if (value.is_object()) {
    for (const auto& [name, settings] : value.items()) {
      const Place here = place.key(name);
      if (has_content(settings)) report.add(here, "settings of a network are not supported yet");
      add(name, here);
    }
  } else {
    read_list(value, "networks' names", place, report, [&](const Json& element, const Place& here) {
      if (const auto name = read_string(element, here, report)) add(*name, here);
    });
  }
  for (const std::string_view alone : {"host", "none"}) {
    if (networks.size() > 1 && std::ranges::find(networks, alone) != networks.end()) {
      report.add(place, fmt::format("the network `{}` cannot be combined with other networks", alone));
    }
  }
  return networks;
}

}  // namespace combu::spec
