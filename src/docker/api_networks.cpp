#include "docker/api.hpp"
#include "docker/api_json.hpp"

namespace combu::docker {

using nlohmann::json;

std::vector<NetworkSummary> list_networks(Connections& engine, const std::vector<std::string>& label_filters,
                                          const std::stop_token& stop) {
  HttpRequest request = request_of(engine, "GET", "/networks");
  if (!label_filters.empty()) request.target += "?" + filters_parameter({{"label", label_filters}});
  const HttpResponse response = engine.send_checked(std::move(request), engine.address().text(), stop);
  return reading(engine, [&] {
    std::vector<NetworkSummary> networks;
    for (const json& network : parse_json(response.body)) {
      const Labels labels = labels_at(network, "Labels");
      const auto experiment = labels.find(k_label_experiment);
      networks.push_back({network.at("Id").get<std::string>(), network.at("Name").get<std::string>(),
                          experiment == labels.end() ? std::string() : experiment->second});
    }
    return networks;
  });
}

void create_network(Connections& engine, const std::string& name, const Labels& labels,
                    const std::stop_token& stop) {
  HttpRequest request = request_of(engine, "POST", "/networks/create");
  // Engine 20.10 creates a second network of the same name unless CheckDuplicate is set.
  request.body =
      json_text(json{{"Name", name}, {"CheckDuplicate", true}, {"Driver", "bridge"}, {"Labels", labels}});
  const HttpResponse response = engine.send(std::move(request), stop);
  if (response.status != 201 && response.status != 409) throw error_of(response, name);
}

void connect_network(Connections& engine, const std::string& network, const std::string& container,
                     const json& endpoint, const std::stop_token& stop) {
  HttpRequest request = request_of(engine, "POST", "/networks/" + percent_encode(network) + "/connect");
  request.body = json_text(json{{"Container", container}, {"EndpointConfig", endpoint}});
  const HttpResponse response = engine.send(std::move(request), stop);
  // Status 403 means that the container is connected already (20.10 writes "endpoint with name … already
  // exists in network …").
  if (response.status != 200 && response.status != 403) throw error_of(response, network);
}

std::optional<Instant> network_created_at(Connections& engine, const std::string& name,
                                          const std::stop_token& stop) {
  const HttpResponse response =
      engine.send(request_of(engine, "GET", "/networks/" + percent_encode(name)), stop);
  if (response.status != 200) return std::nullopt;
  return reading(engine, [&] { return parse_timestamp(text_at(parse_json(response.body), "Created")); });
}

HttpResponse remove_network(Connections& engine, const std::string& id, const std::stop_token& stop) {
  return engine.send(request_of(engine, "DELETE", "/networks/" + id), stop);
}

std::vector<std::string> network_users(Connections& engine, const std::string& id,
                                       const std::stop_token& stop) {
  const HttpResponse response = engine.send_checked(request_of(engine, "GET", "/networks/" + id), id, stop);
  return reading(engine, [&] {
    const json network = parse_json(response.body);
    std::vector<std::string> names;
    const auto containers = network.find("Containers");
    if (containers == network.end() || !containers->is_object()) return names;
    for (const json& container : *containers) names.push_back(text_at(container, "Name"));
    return names;
  });
}

}  // namespace combu::docker
