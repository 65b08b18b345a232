#include "kubernetes/members.hpp"

#include <algorithm>
#include <string>

#include "combu/json.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;

const json k_none;

}  // namespace

const json& member_of(const json& value, std::string_view name) {
  const auto* const members = value.get_ptr<const json::object_t*>();
  if (members == nullptr) return k_none;
  const auto found = members->find(name);
  return found == members->end() ? k_none : found->second;
}

const json& member_of(const json& value, std::initializer_list<std::string_view> names) {
  const json* at = &value;
  for (const std::string_view name : names) at = &member_of(*at, name);
  return *at;
}

std::string_view text_of(const json& value, std::string_view name) {
  return text_of(value, {name});
}

std::string_view text_of(const json& value, std::initializer_list<std::string_view> names) {
  const auto* const text = member_of(value, names).get_ptr<const std::string*>();
  return text == nullptr ? std::string_view() : std::string_view(*text);
}

const json& element_of(const json& list, std::string_view name, std::string_view text) {
  if (!list.is_array()) return k_none;
  const auto found =
      std::ranges::find_if(list, [&](const json& element) { return text_of(element, name) == text; });
  return found == list.end() ? k_none : *found;
}

}  // namespace combu::kubernetes
