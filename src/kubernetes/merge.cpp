#include "kubernetes/merge.hpp"

#include <algorithm>
#include <iterator>

#include "combu/json.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;

// An array that is extended. Elements whose values of the member `key` are equal are one element. If `key` is
// nullptr, all elements are different.
struct Extended {
  std::string_view name;
  const char* key;
};
constexpr Extended k_extended[] = {
    {"env", "name"},          {"imagePullSecrets", nullptr}, {"ports", nullptr}, {"searches", nullptr},
    {"tolerations", nullptr}, {"volumeMounts", "mountPath"}, {"volumes", "name"}};

bool is_same(const json& one, const json& other, const char* key) {
  if (key == nullptr || !one.is_object() || !other.is_object()) return false;
  const json& value = json_at(one, key);
  return !value.is_null() && value == json_at(other, key);
}

void extend(json& into, const json& over, const Extended& rule) {
  for (const json& element : over) {
    const auto same =
        std::ranges::find_if(into, [&](const json& own) { return is_same(own, element, rule.key); });
    if (same == into.end()) {
      into.push_back(element);
    } else {
      merge(*same, element);
    }
  }
}

}  // namespace

json section_of(const Trial& trial) {
  return trial.container.kubernetes.empty() ? json() : parse_json(trial.container.kubernetes);
}

void merge(json& into, const json& over) {
  for (const auto& [name, value] : over.items()) {
    if (value.is_null()) {
      into.erase(name);
      continue;
    }
    json& place = into[name];
    const auto* rule = std::ranges::find(k_extended, std::string_view(name), &Extended::name);
    if (place.is_object() && value.is_object()) {
      merge(place, value);
    } else if (rule != std::end(k_extended) && place.is_array() && value.is_array()) {
      extend(place, value, *rule);
    } else {
      place = value;
    }
  }
}

bool mounts_at(const json& section, std::string_view path) {
  return !element_of(member_of(section, {"container", "volumeMounts"}), "mountPath", path).is_null();
}

}  // namespace combu::kubernetes
