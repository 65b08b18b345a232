#include "spec/cache.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spec/fields.hpp"
#include "spec/values.hpp"

namespace combu::spec {
namespace {

constexpr std::array k_cache_fields{Spelling{"key", "key"}};

// Fields that are known before the trial runs, and so can be part of the cache key.
constexpr auto k_parts = std::to_array<std::string_view>(
    {"name",   "image",    "entrypoint", "cmd",      "env",    "workdir",   "user",
     "params", "platform", "volumes",    "networks", "cpus",   "memory",    "gpus",
     "inputs", "secrets",  "outputs",    "metrics",  "docker", "kubernetes"});

std::string unknown_part(const std::string& part) {
  const auto near = nearest(part, {k_parts.begin(), k_parts.end()});
  return near ? fmt::format(R"("{}" cannot be part of the cache key: did you mean "{}"?)", shortened(part),
                            *near)
              : fmt::format("\"{}\" cannot be part of the cache key; known fields: {}", shortened(part),
                            fmt::join(k_parts, ", "));
}

// Reads one element of the field `key`, for example "cmd" or "params.lr". Only `params` and `env` may be
// followed by a dot and a name.
void read_part(const Json& value, const Place& place, Report& report, Cache& cache) {
  const auto text = read_string(value, place, report);
  if (!text) return;
  const std::string name = text->substr(0, text->find('.'));
  const bool has_path = name.size() < text->size();
  const auto field = find_field(name);
  const std::string known(field ? field_name(*field) : name);
  if (std::ranges::find(k_parts, known) == k_parts.end()) {
    report.add(place, unknown_part(name));
  } else if (has_path && known != "params" && known != "env") {
    report.add(place, fmt::format("only the whole field `{}` can be part of the cache key: write \"{}\"",
                                  known, known));
  } else if (has_path && name.size() + 1 == text->size()) {
    report.add(place, fmt::format(R"("{}" needs a name after the dot: write {}NAME, or "{}" for all)", *text,
                                  *text, known));
  } else {
    cache.key.push_back(known + text->substr(name.size()));
  }
}

}  // namespace

Cache read_cache(const Json& value, const Place& place, Report& report) {
  Cache cache{.on = true, .key = {}};
  if (value.is_boolean()) {
    cache.on = value.get<bool>();
  } else if (!value.is_object()) {
    report.add(place, fmt::format("must be true, false or {{key: […]}}, not {}", shown(value)));
  } else {
    const Section section(value, k_cache_fields, place, report);
    if (const Json* key = section.find("key")) {
      read_list(*key, "fields", place.key("key"), report,
                [&](const Json& element, const Place& here) { read_part(element, here, report, cache); });
      if (key->is_array() && key->empty())
        report.add(place.key("key"),
                   "must name at least one field; otherwise all trials with the same image would be equal");
    } else if (section.lacks("key")) {
      report.add(
          place.key("key"),
          "missing: the fields of the cache key; `cache: true` uses every field that can affect the result");
    }
  }
  return cache;
}

}  // namespace combu::spec
