#include "docker/api.hpp"
#include "docker/api_json.hpp"

namespace combu::docker {

using nlohmann::json;

std::vector<std::string> list_volumes(Connections& engine, const std::string& label,
                                      const std::stop_token& stop) {
  const HttpRequest request =
      request_of(engine, "GET", "/volumes?" + filters_parameter({{"label", {label}}}));
  const HttpResponse response = engine.send_checked(request, engine.address().text(), stop);
  return reading(engine, [&] {
    const json body = parse_json(response.body);
    std::vector<std::string> names;
    for (const json& volume : json_at(body, "Volumes")) names.push_back(volume.at("Name").get<std::string>());
    return names;
  });
}

HttpResponse remove_volume(Connections& engine, const std::string& name, const std::stop_token& stop) {
  return engine.send(request_of(engine, "DELETE", "/volumes/" + percent_encode(name)), stop);
}

}  // namespace combu::docker
