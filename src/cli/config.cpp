#include "cli/config.hpp"

#include <fmt/format.h>

#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/environment.hpp"

namespace combu {
namespace {

using nlohmann::json;

std::string config_file() {
  if (const auto folder = environment("XDG_CONFIG_HOME"); folder && !folder->empty())
    return *folder + "/combu/config.json";
  return environment("HOME").value_or("") + "/.config/combu/config.json";
}

// A misspelt name would go unnoticed.
void check_names(const json& object, const std::string& where,
                 std::initializer_list<std::string_view> known) {
  if (!object.is_object()) throw Error(ErrorKind::invalid, "", fmt::format("{} must be an object", where));
  for (const auto& [name, value] : object.items())
    if (std::ranges::find(known, name) == known.end())
      throw Error(ErrorKind::invalid, "",
                  fmt::format("{} has a field `{}`, which combu does not know", where, shortened(name)));
}

Gpu gpu_of(const json& value, const std::string& where) {
  check_names(value, where, {"id", "uuid", "kind", "memory"});
  Gpu gpu{.id = value.value("id", ""),
          .uuid = value.value("uuid", ""),
          .kind = value.value("kind", ""),
          .memory = {}};
  if (gpu.id.empty()) throw Error(ErrorKind::invalid, "", fmt::format("{} has no `id`", where));
  if (value.contains("memory")) gpu.memory = parse_bytes(value.at("memory").get<std::string>());
  return gpu;
}

}  // namespace

std::vector<Gpu> configured_gpus(const std::string& address) {
  const std::string path = config_file();
  std::ifstream file(path);
  if (!file) return {};
  try {
    const json config = json::parse(file, nullptr, true, /*ignore_comments=*/true);
    check_names(config, "it", {"engines"});
    const json engines = config.value("engines", json::object());
    if (!engines.contains(address)) return {};
    check_names(engines.at(address), address, {"gpus"});
    std::vector<Gpu> gpus;
    for (const json& value : engines.at(address).value("gpus", json::array()))
      gpus.push_back(gpu_of(value, fmt::format("{}'s gpus[{}]", address, gpus.size())));
    return gpus;
  } catch (const json::exception& error) {
    throw Error(ErrorKind::invalid, path, error.what());
  } catch (const Error& error) {
    throw Error(ErrorKind::invalid, path, error.message());
  }
}

}  // namespace combu
