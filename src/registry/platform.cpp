#include "registry/platform.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "combu/json.hpp"

namespace combu::registry {

std::string usual_platform(std::string_view platform) {
  const std::size_t slash = std::min(platform.find('/'), platform.size());
  const std::string_view system = platform.substr(0, slash);
  const std::string_view machine = platform.substr(slash);
  if (machine == "/x86_64" || machine == "/x86-64") return fmt::format("{}/amd64", system);
  if (machine == "/aarch64" || machine == "/arm64/v8") return fmt::format("{}/arm64", system);
  return std::string(platform);
}

std::string platform_of(const nlohmann::json& object) {
  const std::string_view system = text_of(object, "os");
  const std::string_view machine = text_of(object, "architecture");
  const std::string_view variant = text_of(object, "variant");
  if (system.empty() || machine.empty() || system == "unknown" || machine == "unknown") return "";
  return usual_platform(fmt::format("{}/{}{}{}", system, machine, variant.empty() ? "" : "/", variant));
}

bool is_for(std::string_view platform, std::string_view wanted) {
  return platform.starts_with(wanted) && (platform.size() == wanted.size() || platform[wanted.size()] == '/');
}

}  // namespace combu::registry
