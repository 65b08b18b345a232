#include "docker/duplicate_networks.hpp"

#include <functional>
#include <map>

#include "docker/api.hpp"

namespace combu::docker {
namespace {

// Removes a network. Returns true if the network does not exist after the call.
bool remove(Connections& engine, const std::string& id, const std::stop_token& stop) {
  const int status = remove_network(engine, id, stop).status;
  return status == 200 || status == 204 || status == 404;
}

}  // namespace

void remove_duplicate_networks(Connections& engine, const std::set<std::string>& names,
                               const std::stop_token& stop) {
  std::map<std::string, std::set<std::string, std::greater<>>> ids;
  for (const NetworkSummary& network : list_networks(engine, label_filters(Selector{}), stop))
    if (names.contains(network.name)) ids[network.name].insert(network.id);
  for (const auto& [name, duplicates] : ids) {
    std::size_t left = duplicates.size();
    for (const std::string& id : duplicates)
      if (left > 1 && remove(engine, id, stop)) --left;
  }
}

}  // namespace combu::docker
