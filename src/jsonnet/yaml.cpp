#include "jsonnet/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "combu/base.hpp"

namespace combu {
namespace {

// Returns the YAML key at the beginning of the line, for example "services" for "services:". Returns an empty
// view if the line has no key.
std::string_view key_of(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return {};
  const std::string_view after = line.substr(colon + 1);
  if (!after.empty() && after.front() != ' ' && after.front() != '\t' && after.front() != '\r') return {};
  std::string_view key = line.substr(0, colon);
  for (const char quote : {'"', '\''}) {
    if (key.size() < 2 || key.front() != quote || key.back() != quote) continue;
    key = key.substr(1, key.size() - 2);
    break;
  }
  const bool is_plain = std::ranges::all_of(key, [](char c) {
    return c == '_' || c == '-' || c == '.' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z');
  });
  return is_plain ? key : std::string_view();
}

// True if YAML allows this line as the first line of a file and Jsonnet does not.
bool begins_yaml(std::string_view line) {
  return line.starts_with("---") || line.starts_with("%YAML") || line.starts_with("- ") ||
         !key_of(line).empty();
}

}  // namespace

std::string yaml_fault(std::string_view name, std::string_view source) {
  bool is_yaml = name.ends_with(".yml") || name.ends_with(".yaml");
  bool is_compose = false;
  bool is_first = true;
  while (!source.empty()) {
    const std::string_view line = source.substr(0, source.find('\n'));
    source.remove_prefix(std::min(line.size() + 1, source.size()));
    if (trimmed(line).empty() || line.starts_with('#')) continue;
    if (is_first) is_yaml = is_yaml || begins_yaml(line);
    is_first = false;
    if (!is_yaml) return {};
    is_compose = is_compose || key_of(line) == "services";
  }
  if (!is_yaml) return {};
  return fmt::format(
      R"(this is a {}, and combu reads Jsonnet; write {} as {{ trials: [{{ name: "NAME", image: "IMAGE", )"
      R"(cmd: "COMMAND" }}] }}, see `man combu-experiment`)",
      is_compose ? "Compose file (YAML)" : "YAML file", is_compose ? "its services" : "the experiment");
}

}  // namespace combu
