#include "spec/json.hpp"

#include "combu/base.hpp"

namespace combu::spec {

std::string_view kind_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "nothing (null)";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    default:
      return "a number";
  }
}

std::string shown(const Json& value) {
  if (value.is_string()) return '"' + shortened(value.get_ref<const std::string&>()) + '"';
  if (value.is_structured() || value.is_null()) return std::string(kind_of(value));
  return json_text(value);
}

std::optional<std::string> scalar_text(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>();
  if (value.is_number() || value.is_boolean()) return json_text(value);
  return std::nullopt;
}

void merge_deep(Json& base, const Json& over) {
  for (const auto& [key, value] : over.items()) {
    const auto found = base.find(key);
    if (found == base.end()) {
      base[key] = value;
    } else if (found->is_object() && value.is_object()) {
      merge_deep(*found, value);
    } else {
      *found = value;
    }
  }
}

}  // namespace combu::spec
