#pragma once
// The findings of Engine::diagnose() for a namespace of a cluster.

#include <stop_token>
#include <string_view>
#include <vector>

#include "combu/engine.hpp"
#include "kubernetes/api_client.hpp"
#include "kubernetes/kubeconfig.hpp"

namespace combu::kubernetes {

// The fields by which a Pod satisfies the level "restricted", as text of the experiment file:
// https://kubernetes.io/docs/concepts/security/pod-security-standards/
inline constexpr std::string_view k_restricted_fields =
    "kubernetes: {container: {securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: "
    "[\"ALL\"]}, runAsNonRoot: true, seccompProfile: {type: \"RuntimeDefault\"}}}}";

// Examines the connection to the server, the namespace access.name_space, the user's rights, and the limits
// of the namespace, as Engine::diagnose() requires. `access`: the settings of `client`.
[[nodiscard]] std::vector<Finding> diagnose_cluster(ApiClient& client, const Access& access,
                                                    const std::stop_token& stop);

}  // namespace combu::kubernetes
