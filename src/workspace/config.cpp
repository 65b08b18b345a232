#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string_view>

#include "combu/json.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

using nlohmann::json;

std::string config_file() {
  if (const auto folder = environment("XDG_CONFIG_HOME"); folder && !folder->empty())
    return *folder + "/combu/config.json";
  return environment("HOME").value_or("") + "/.config/combu/config.json";
}

// Throws Error(invalid) if `object` has a field that is not in `known`, because the name may be misspelt.
void check_names(const json& object, const std::string& where,
                 std::initializer_list<std::string_view> known) {
  if (!object.is_object()) throw Error(ErrorKind::invalid, "", fmt::format("{} must be an object", where));
  for (const auto& [name, value] : object.items())
    if (std::ranges::find(known, name) == known.end())
      throw Error(ErrorKind::invalid, "",
                  fmt::format("{} has a field `{}`, which combu does not know", where, shortened(name)));
}

std::string text_in(const json& object, const char* name, const std::string& where) {
  const json value = object.value(name, json(""));
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_unsigned()) return json_text(value);
  throw Error(ErrorKind::invalid, "", fmt::format("{}'s `{}` must be a string", where, name));
}

// Returns true if `id` is a GPU's number or the name of a CDI device. A number or name of a CDI device means
// the same GPU to all users of an engine. Another id may mean different GPUs to different users.
bool is_device(std::string_view id) {
  constexpr std::string_view k_nvidia = "nvidia.com/gpu=";
  if (id.find(',') != std::string_view::npos) return false;
  if (id.starts_with(k_nvidia)) id.remove_prefix(k_nvidia.size());
  const bool is_number = !id.empty() && id.find_first_not_of("0123456789:") == std::string_view::npos;
  return is_number || (id.find('=') != std::string_view::npos && !id.ends_with('='));
}

Gpu gpu_of(const json& value, const std::string& where) {
  check_names(value, where, {"id", "uuid", "kind", "memory"});
  Gpu gpu{.id = text_in(value, "id", where),
          .uuid = text_in(value, "uuid", where),
          .kind = text_in(value, "kind", where),
          .memory = {}};
  if (!is_device(gpu.id))
    throw Error(ErrorKind::invalid, "",
                fmt::format("{}'s `id` must be the GPU's number such as \"0\", or a CDI device's name "
                            "such as \"nvidia.com/gpu=0\", not \"{}\"",
                            where, shortened(gpu.id)));
  if (value.contains("memory")) gpu.memory = parse_bytes(text_in(value, "memory", where));
  return gpu;
}

std::vector<Gpu> gpus_of(const json& engine, const std::string& address) {
  check_names(engine, address, {"gpus"});
  if (!engine.contains("gpus")) return {};
  const json& list = engine["gpus"];
  if (!list.is_array())
    throw Error(ErrorKind::invalid, "", fmt::format("{}'s `gpus` must be an array", address));
  std::vector<Gpu> gpus;
  for (const json& value : list) {
    const std::string where = fmt::format("{}'s gpus[{}]", address, gpus.size());
    Gpu gpu = gpu_of(value, where);
    if (std::ranges::any_of(gpus, [&](const Gpu& other) { return is_called(other, gpu.id); }))
      throw Error(ErrorKind::invalid, "", fmt::format("{}: the GPU {} is named twice", where, gpu.id));
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

}  // namespace

std::vector<Gpu> configured_gpus(const std::string& address) {
  const std::string path = config_file();
  std::ifstream file(path);
  if (!file) return {};
  try {
    const json config = parse_json_with_comments(std::string(std::istreambuf_iterator<char>(file), {}));
    check_names(config, "the file", {"engines"});
    if (!config.contains("engines")) return {};
    const json& engines = config["engines"];
    if (!engines.is_object()) throw Error(ErrorKind::invalid, "", "`engines` must be an object");
    return engines.contains(address) ? gpus_of(engines.at(address), address) : std::vector<Gpu>();
  } catch (const Error& error) {
    throw Error(ErrorKind::invalid, path, error.message());
  } catch (const std::exception& error) {  // thrown if the path is not a file, or if the content is not JSON
    throw Error(ErrorKind::invalid, path, error.what());
  }
}

}  // namespace combu
