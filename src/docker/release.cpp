#include <fmt/core.h>

#include <mutex>
#include <set>
#include <utility>

#include "docker/docker_engine.hpp"

namespace combu::docker {
namespace {

constexpr std::size_t k_removals_in_flight = 8;
// the status of the engine's answer if a network is in use, or is one of the engine's own networks
constexpr int k_network_in_use = 403;

// True if the error concerns one container or network, not the engine.
bool concerns_one(const Error& error) {
  return error.kind() == ErrorKind::refused || error.kind() == ErrorKind::conflict;
}

std::string still_used_by(const std::vector<std::string>& names) {
  constexpr std::size_t k_named = 3;
  // If many containers start or end at once, the engine's count of the endpoints in a network can become
  // wrong: https://github.com/moby/moby/issues/42119
  if (names.empty())
    return "the engine counts the network as used, although no container uses it; the next run can use it, "
           "and a restart of the engine corrects the count";
  return "still used by " + list_text(names, k_named);
}

}  // namespace

Released DockerEngine::release(const Selector& selector, const ReleaseCallbacks& callbacks,
                               std::stop_token stop) {
  std::vector<std::vector<std::string>> networks;
  std::vector<Observation> selected = list_once(selector, networks, stop);
  Released released;
  for (const Observation& one : selected) released.experiments.insert(one.experiment);
  const std::set<Key> kept = callbacks.found ? callbacks.found(selected) : std::set<Key>();
  UsedNetworks used;
  for (std::size_t i = 0; i < selected.size(); ++i) {
    for (const std::string& network : networks[i]) {
      std::vector<std::string>& keepers = used[network];
      if (kept.contains(selected[i].key)) keepers.push_back(selected[i].key.trial);
    }
  }
  std::erase_if(selected, [&](const Observation& one) { return kept.contains(one.key); });
  std::mutex mutex;
  in_parallel(selected.size(), k_removals_in_flight, [&](std::size_t i) {
    std::optional<Error> failure;
    try {
      remove_container(connections_, selected[i].id, selected[i].key.trial, stop);
    } catch (const Error& error) {
      if (!concerns_one(error)) throw;
      failure = error;
    }
    const std::scoped_lock lock(mutex);
    if (failure) {
      released.left.push_back(*failure);
      return;
    }
    ++released.attempts;
    if (callbacks.removed) callbacks.removed(released.attempts, selected.size());
  });
  if (selector.trials.empty()) {
    release_networks(selector, used, released, stop);
    if (released.attempts > 0) remove_unused_programs(connections_, stop);
  }
  return released;
}

// Returns the networks that were created for the selected runs or experiments. Also returns networks of other
// experiments that the selected attempts use, if the other experiment has no attempts left. `combu kill` of
// that experiment could not remove such a network while it was in use.
std::vector<NetworkSummary> DockerEngine::networks_to_release(const Selector& selector,
                                                              const UsedNetworks& used,
                                                              const std::stop_token& stop) {
  std::vector<NetworkSummary> networks = list_networks(connections_, label_filters(selector), stop);
  if (used.empty()) return networks;
  std::set<std::string> owners;
  for (const Observation& observation : list({}, ListDetail::basic, stop))
    owners.insert(observation.experiment);
  std::set<std::string> known;
  for (const NetworkSummary& network : networks) known.insert(network.id);
  for (NetworkSummary& network : list_networks(connections_, label_filters(Selector{}), stop)) {
    if (used.contains(network.name) && !owners.contains(network.experiment) && !known.contains(network.id))
      networks.push_back(std::move(network));
  }
  return networks;
}

void DockerEngine::release_networks(const Selector& selector, const UsedNetworks& used, Released& released,
                                    const std::stop_token& stop) {
  for (const NetworkSummary& network : networks_to_release(selector, used, stop)) {
    // Do not ask the engine to remove a network of an attempt in `kept`: if all containers of the network
    // have ended, the engine would remove the network.
    if (const auto user = used.find(network.name); user != used.end() && !user->second.empty()) {
      released.in_use.emplace_back(ErrorKind::conflict, network.name, still_used_by(user->second));
      continue;
    }
    const HttpResponse response = remove_network(connections_, network.id, stop);
    if (response.status == 204 || response.status == 200) {
      ++released.networks;
    } else if (response.status == k_network_in_use) {
      released.in_use.emplace_back(ErrorKind::conflict, network.name,
                                   still_used_by(network_users(connections_, network.id, stop)));
    } else if (response.status != 404) {
      const Error error = error_of(response, network.name);
      if (!concerns_one(error)) throw Error(error);
      released.left.push_back(error);
    }
  }
}

}  // namespace combu::docker
