#include "kubernetes/networks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "combu/json.hpp"
#include "kubernetes/metadata.hpp"
#include "kubernetes/names.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;

// The name of a port's protocol in the API, such as "TCP".
std::string protocol_of(const Port& port) {
  std::string name = port.protocol;
  std::ranges::transform(name, name.begin(),
                         [](char c) { return static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c); });
  return name;
}

json selector_of(const RunId& run, const std::string& label, const std::string& value) {
  return {{"matchLabels", {{k_run, label_value(run.text())}, {label, value}}}};
}

json policy(const std::string& name, const Run& run, const Home& home, json selector, json ingress) {
  json object = run_object("networking.k8s.io/v1", "NetworkPolicy", name, run, home);
  object["spec"] = {{"podSelector", std::move(selector)},
                    {"policyTypes", json::array({"Ingress"})},
                    {"ingress", json::array({std::move(ingress)})}};
  return object;
}

json network_policy(const std::string& network, const Run& run, const Home& home) {
  const json members = selector_of(run.id, network_label(network), "true");
  const json from = {{"from", json::array({{{"podSelector", members}}})}};
  return policy(network_policy_name(run.id, network), run, home, members, from);
}

// The policies of networks would also close the ports that a trial publishes on its node.
json port_policy(const Trial& trial, const Run& run, const Home& home) {
  json ports = json::array();
  for (const Port& port : trial.container.ports)
    ports.push_back({{"protocol", protocol_of(port)}, {"port", port.container}});
  return policy(port_policy_name(run.id, trial.name), run, home,
                selector_of(run.id, k_trial, label_value(trial.name)), {{"ports", std::move(ports)}});
}

json service(const Run& run, const Home& home) {
  json object = run_object("v1", "Service", anchor_name(run.id), run, home);
  object["spec"] = {{"clusterIP", "None"},
                    {"publishNotReadyAddresses", true},
                    {"selector", {{k_named, label_value(run.id.text())}}}};
  return object;
}

json ports_of(const Trial& trial) {
  json ports = json::array();
  for (const Port& port : trial.container.ports) {
    json one = {{"containerPort", port.container}, {"hostPort", port.host}, {"protocol", protocol_of(port)}};
    if (!port.host_ip.empty()) one["hostIP"] = port.host_ip;
    ports.push_back(std::move(one));
  }
  return ports;
}

}  // namespace

std::vector<std::string> named_networks(const Trial& trial) {
  std::vector<std::string> named;
  std::ranges::copy_if(trial.container.networks, std::back_inserter(named), [](const std::string& name) {
    return name != "host" && name != "none" && name != "bridge" && name != "default";
  });
  return named;
}

bool is_on_host(const Trial& trial) {
  return std::ranges::find(trial.container.networks, "host") != trial.container.networks.end();
}

std::optional<std::string> host_name(const Trial& trial) {
  std::string name = in_lower_case(trial.name);
  if (named_networks(trial).empty() || !is_dns_label(name)) return std::nullopt;
  return name;
}

void add_networks(json& pod, const Run& run, const Trial& trial, const Home& home) {
  json& spec = pod["spec"];
  if (is_on_host(trial)) {  // As on a Docker Engine, `ports` has no effect on this network.
    spec["hostNetwork"] = true;
    spec["dnsPolicy"] = "ClusterFirstWithHostNet";
    return;
  }
  if (!trial.container.ports.empty()) spec["containers"][0]["ports"] = ports_of(trial);
  const std::vector<std::string> networks = named_networks(trial);
  if (networks.empty()) return;
  json& labels = pod["metadata"]["labels"];
  labels[k_named] = label_value(run.id.text());
  for (const std::string& network : networks) labels[network_label(network)] = "true";
  const std::string domain = anchor_name(run.id);
  if (auto name = host_name(trial)) {
    spec["hostname"] = *std::move(name);
    spec["subdomain"] = domain;
  }
  spec["dnsConfig"]["searches"] =
      json::array({fmt::format("{}.{}.svc.cluster.local", domain, home.name_space)});
}

std::vector<json> network_manifests(const Run& run, const Home& home) {
  std::vector<json> objects;
  std::unordered_set<std::string> known;
  for (const Trial& trial : run.experiment.trials) {
    const std::vector<std::string> networks = named_networks(trial);
    if (networks.empty()) continue;
    if (objects.empty()) objects.push_back(service(run, home));
    if (!run.experiment.isolates_networks) break;
    for (const std::string& network : networks)
      if (known.insert(network).second) objects.push_back(network_policy(network, run, home));
    if (!trial.container.ports.empty()) objects.push_back(port_policy(trial, run, home));
  }
  return objects;
}

}  // namespace combu::kubernetes
