#include "docker/api.hpp"

namespace combu::docker {

using nlohmann::json;

std::string filters_parameter(const json& filters) {
  return "filters=" + percent_encode(filters.dump());
}

std::string text_at(const json& object, const char* name) {
  const auto at = object.find(name);
  return at == object.end() || at->is_null() ? std::string() : at->get<std::string>();
}

Labels labels_at(const json& object, const char* name) {
  const auto at = object.find(name);
  return at == object.end() || at->is_null() ? Labels() : at->get<Labels>();
}

SystemFacts get_system(Connections& engine, const std::stop_token& stop) {
  const auto get = [&](const char* target) {
    HttpRequest request;
    request.target = target;
    request.silence_max = engine.options().silence_max;
    return engine.send_checked(request, engine.address().text(), stop).body;
  };
  return reading(engine, [&] {
    const json version = json::parse(get("/version"));
    const json info = json::parse(get("/info"));
    SystemFacts facts;
    facts.product = "Docker Engine";
    for (const json& component : version.value("Components", json::array())) {
      if (text_at(component, "Name").starts_with("Podman")) facts.product = text_at(component, "Name");
    }
    facts.version = text_at(version, "Version");
    constexpr std::int64_t k_nano = 1'000'000'000;
    facts.capacity = {Cpus{info.at("NCPU").get<std::int64_t>() * k_nano},
                      Bytes{info.at("MemTotal").get<std::int64_t>()}};
    const json devices = info.value("DiscoveredDevices", json());
    for (const json& device : devices.is_array() ? devices : json::array())
      if (text_at(device, "Source") == "cdi") facts.cdi_devices.push_back(text_at(device, "ID"));
    return facts;
  });
}

}  // namespace combu::docker
