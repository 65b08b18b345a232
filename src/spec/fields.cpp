#include "spec/fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

#include "combu/base.hpp"

namespace combu::spec {

namespace {

struct FieldSpelling {
  std::string_view spelling;
  Field field;
};

// For each field, combu's own name precedes the aliases. Aliases are the field's names in Compose,
// Dockerfiles and `docker run`.
constexpr std::array k_spellings{
    FieldSpelling{"name", Field::name},
    FieldSpelling{"container_name", Field::name},
    FieldSpelling{"image", Field::image},
    FieldSpelling{"ports", Field::ports},
    FieldSpelling{"publish", Field::ports},
    FieldSpelling{"volumes", Field::volumes},
    FieldSpelling{"networks", Field::networks},
    FieldSpelling{"network", Field::networks},
    FieldSpelling{"network_mode", Field::networks},
    FieldSpelling{"depends", Field::depends},
    FieldSpelling{"depends_on", Field::depends},
    FieldSpelling{"cmd", Field::cmd},
    FieldSpelling{"command", Field::cmd},
    FieldSpelling{"entrypoint", Field::entrypoint},
    FieldSpelling{"env", Field::env},
    FieldSpelling{"environment", Field::env},
    FieldSpelling{"env_file", Field::env_file},
    FieldSpelling{"workdir", Field::workdir},
    FieldSpelling{"working_dir", Field::workdir},
    FieldSpelling{"user", Field::user},
    FieldSpelling{"init", Field::init},
    FieldSpelling{"service", Field::service},
    FieldSpelling{"labels", Field::labels},
    FieldSpelling{"params", Field::params},
    FieldSpelling{"params_file", Field::params_file},
    FieldSpelling{"pull", Field::pull},
    FieldSpelling{"pull_policy", Field::pull},
    FieldSpelling{"platform", Field::platform},
    FieldSpelling{"healthcheck", Field::healthcheck},
    FieldSpelling{"stop_signal", Field::stop_signal},
    FieldSpelling{"stop_grace", Field::stop_grace},
    FieldSpelling{"stop_grace_period", Field::stop_grace},
    FieldSpelling{"stop_timeout", Field::stop_grace},
    FieldSpelling{"cpus", Field::cpus},
    FieldSpelling{"memory", Field::memory},
    FieldSpelling{"mem_limit", Field::memory},
    FieldSpelling{"shm_size", Field::shm_size},
    FieldSpelling{"gpus", Field::gpus},
    FieldSpelling{"priority", Field::priority},
    FieldSpelling{"retries", Field::retries},
    FieldSpelling{"timeout", Field::timeout},
    FieldSpelling{"start_deadline", Field::start_deadline},
    FieldSpelling{"outputs", Field::outputs},
    FieldSpelling{"metrics", Field::metrics},
    FieldSpelling{"logs", Field::logs},
    FieldSpelling{"cache", Field::cache},
    FieldSpelling{"inputs", Field::inputs},
    FieldSpelling{"secrets", Field::secrets},
    FieldSpelling{"deploy", Field::deploy},
    FieldSpelling{"docker", Field::docker},
    FieldSpelling{"kubernetes", Field::kubernetes},
    FieldSpelling{"worker", Field::worker},
};

// Names of fields that are planned but not implemented: combu's own names, and Compose's names for the same
// features.
constexpr auto k_planned =
    std::to_array<std::string_view>({"slots", "build", "gang", "replicas", "scale", "reuse", "swarm"});

}  // namespace

std::optional<Field> find_field(std::string_view spelling) {
  static const auto k_index = [] {
    std::unordered_map<std::string_view, Field> index;
    for (const FieldSpelling& known : k_spellings) index.emplace(known.spelling, known.field);
    return index;
  }();
  const auto found = k_index.find(spelling);
  return found == k_index.end() ? std::nullopt : std::optional(found->second);
}

std::string_view field_name(Field field) {
  return std::ranges::find(k_spellings, field, &FieldSpelling::field)->spelling;
}

bool planned_field(std::string_view spelling) {
  return std::ranges::find(k_planned, spelling) != k_planned.end();
}

const std::vector<std::string_view>& top_fields() {
  static const std::vector<std::string_view> k_fields{
      "experiment", "defaults", "trials", "parallel", "order", "seed",    "deadline", "max_failures",
      "canary",     "collect",  "keep",   "hold",     "ttl",   "isolate", "secrets"};
  return k_fields;
}

bool top_field(std::string_view spelling) {
  return std::ranges::find(top_fields(), spelling) != top_fields().end();
}

bool own_field(std::string_view spelling) {
  return spelling.starts_with("x-");
}

std::optional<std::string_view> meant_field(std::string_view spelling) {
  static const auto k_known = [] {
    std::vector<std::string_view> known;
    known.reserve(k_spellings.size() + k_planned.size());
    for (const FieldSpelling& one : k_spellings) known.push_back(one.spelling);
    known.insert(known.end(), k_planned.begin(), k_planned.end());
    return known;
  }();
  return nearest(spelling, k_known);
}

std::string unknown_field(std::string_view spelling, std::optional<std::string_view> meant) {
  const std::string unknown = fmt::format("unknown field `{}`", shortened(spelling));
  return meant ? fmt::format("{}: did you mean `{}`?", unknown, *meant) : unknown;
}

Section::Section(const Json& object, std::span<const Spelling> known, const Place& place, Report& report) {
  for (const auto& [key, value] : object.items()) {
    if (own_field(key)) continue;
    const auto found = std::ranges::find(known, std::string_view(key), &Spelling::spelling);
    if (found == known.end()) {
      std::vector<std::string_view> spellings;
      spellings.reserve(known.size());
      for (const Spelling& one : known) spellings.push_back(one.spelling);
      const auto meant = nearest(key, spellings);
      if (meant) misspelt_.push_back(std::ranges::find(known, *meant, &Spelling::spelling)->name);
      report.add(place.key(key),
                 unknown_field(key, meant) +
                     (meant ? "" : fmt::format("; known fields: {}", fmt::join(spellings, ", "))));
      continue;
    }
    const auto same = std::ranges::find(given_, found->name, [](const Given& one) { return one.field.name; });
    if (same != given_.end()) {
      report.add(place.key(key),
                 same->field.spelling == key
                     ? fmt::format("`{}` is given twice", key)
                     : fmt::format("`{}` and `{}` mean the same field; keep one", same->field.spelling, key));
      continue;
    }
    given_.push_back({*found, &value});
  }
}

const Json* Section::find(std::string_view name) const {
  const auto found = std::ranges::find(given_, name, [](const Given& one) { return one.field.name; });
  return found == given_.end() || found->value->is_null() ? nullptr : found->value;
}

bool Section::lacks(std::string_view name) const {
  return find(name) == nullptr && std::ranges::find(misspelt_, name) == misspelt_.end();
}

std::string_view Section::spelling(std::string_view name) const {
  const auto found = std::ranges::find(given_, name, [](const Given& one) { return one.field.name; });
  return found == given_.end() ? name : found->field.spelling;
}

}  // namespace combu::spec
