#pragma once
// The networks of a run: the names of trials on them, and their objects in a cluster.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "combu/spec.hpp"
#include "kubernetes/metadata.hpp"

namespace combu::kubernetes {

// Returns the trial's networks, without the networks that Docker itself has ("host", "none", "bridge" and
// "default").
[[nodiscard]] std::vector<std::string> named_networks(const Trial& trial);

// True if the trial is on Docker's network "host", that is, its Pod uses the network of its node.
[[nodiscard]] bool is_on_host(const Trial& trial);

// Returns the host name under which other trials reach this trial: its name in lower case. Returns nullopt if
// the trial is on no named network, or if its name is no DNS label.
[[nodiscard]] std::optional<std::string> host_name(const Trial& trial);

// Adds the trial's networks to its Pod: labels, the host name, the domain in which the Pod looks up names,
// and the ports.
void add_networks(nlohmann::json& pod, const Run& run, const Trial& trial, const Home& home);

// Returns the Service that gives the trials on named networks their host names, and with
// Experiment::isolates_networks one NetworkPolicy for each named network. Such a NetworkPolicy would also
// close the ports that a trial publishes, so each trial with ports on a named network then has a
// NetworkPolicy of its own. Returns an empty array if no trial is on a named network.
[[nodiscard]] std::vector<nlohmann::json> network_manifests(const Run& run, const Home& home);

}  // namespace combu::kubernetes
