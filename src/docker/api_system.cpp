#include "docker/api.hpp"
#include "docker/api_json.hpp"

namespace combu::docker {

using nlohmann::json;

namespace {

// Runs do not need the members of read_features(), so members of another type count as absent.

bool flag_at(const json& object, const char* name, bool otherwise) {
  const json& flag = json_at(object, name);
  return flag.is_boolean() ? flag.get<bool>() : otherwise;
}

void read_features(const json& info, SystemFacts& facts) {
  facts.host = text_of(info, "Name");
  facts.data_folder = text_of(info, "DockerRootDir");
  facts.limits = {.cpus = flag_at(info, "CpuCfsQuota", true),
                  .memory = flag_at(info, "MemoryLimit", true),
                  .swap = flag_at(info, "SwapLimit", true),
                  .processes = flag_at(info, "PidsLimit", true)};
  facts.cgroup_driver = text_of(info, "CgroupDriver");
  for (const json& option : json_at(info, "SecurityOptions")) facts.is_rootless |= option == "name=rootless";
  facts.keeps_running = flag_at(info, "LiveRestoreEnabled", false);
  facts.is_in_swarm = text_of(info, {"Swarm", "LocalNodeState"}) == "active";
  const json& runtimes = json_at(info, "Runtimes");
  facts.has_nvidia_runtime = runtimes.is_object() && runtimes.contains("nvidia");
}

}  // namespace

SystemFacts get_system(Connections& engine, const std::stop_token& stop) {
  const auto get = [&](const char* target) {
    HttpRequest request;
    request.target = target;
    request.silence_max = engine.options().silence_max;
    return engine.send_checked(request, engine.address().text(), stop).body;
  };
  return reading(engine, [&] {
    const json version = parse_json(get("/version"));
    const json info = parse_json(get("/info"));
    SystemFacts facts;
    facts.product = "Docker Engine";
    for (const json& component : json_at(version, "Components")) {
      if (text_at(component, "Name").starts_with("Podman")) facts.product = text_at(component, "Name");
    }
    facts.version = text_at(version, "Version");
    constexpr std::int64_t k_nano = 1'000'000'000;
    constexpr std::int64_t k_cpus_max = 1'000'000;
    facts.capacity = {Cpus{integer_of(info.at("NCPU"), 0, k_cpus_max) * k_nano},
                      Bytes{integer_of(info.at("MemTotal"), 0, k_bytes_max)}};
    read_features(info, facts);
    for (const json& device : json_at(info, "DiscoveredDevices"))
      if (text_at(device, "Source") == "cdi") facts.cdi_devices.push_back(text_at(device, "ID"));
    return facts;
  });
}

}  // namespace combu::docker
