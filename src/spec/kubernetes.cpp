#include "spec/kubernetes.hpp"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <string>

#include "spec/fields.hpp"

namespace combu::spec {
namespace {

constexpr std::array k_kubernetes_fields{Spelling{"pod", "pod"}, Spelling{"container", "container"},
                                         Spelling{"metadata", "metadata"}};

}  // namespace

Json read_kubernetes(const Json& value, const Place& place, Report& report) {
  Json members = Json::object();
  if (!value.is_object()) {
    report.add(place, fmt::format("must be {{pod, container, metadata}}, not {}", shown(value)));
    return members;
  }
  const Section section(value, k_kubernetes_fields, place, report);
  for (const Spelling& field : k_kubernetes_fields) {
    const Json* member = section.find(field.name);
    if (member == nullptr) {
      if (value.contains(field.name)) members[std::string(field.name)] = nullptr;
    } else if (member->is_object()) {
      members[std::string(field.name)] = *member;
    } else {
      report.add(place.key(field.name), fmt::format("must be an object, not {}", shown(*member)));
    }
  }
  return members;
}

void drop_null_members(Json& value) {
  if (!value.is_structured()) return;
  for (auto member = value.begin(); member != value.end();) {
    if (value.is_object() && member->is_null()) {
      member = value.erase(member);
    } else {
      drop_null_members(*member);
      ++member;
    }
  }
}

Keep read_keep(const Json& value, const Place& place, Report& report) {
  if (value == "ended") return Keep::ended;
  if (value == "volume") return Keep::volume;
  report.add(place, fmt::format(R"(must be "ended" or "volume", not {})", shown(value)));
  return Keep::none;
}

}  // namespace combu::spec
