#pragma once
// The rights that combu needs in a namespace:
// https://kubernetes.io/docs/reference/access-authn-authz/authorization/

#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "kubernetes/api_client.hpp"

namespace combu::kubernetes {

// The part of combu that does not work without a right.
enum class Need {
  runs,       // all runs
  reasons,    // reasons of pending trials that only Events have
  isolation,  // Experiment::isolates_networks
  volumes,    // named volumes
  agent,      // trials with `worker`, and trials whose files combu copies
  secrets,    // trials with secrets whose values combu reads
  usage,      // memory and CPU time of running trials
};

struct Right {
  std::string group;  // API group; empty: the core group
  std::string resource;
  std::string subresource;  // may be empty
  std::string verb;
  Need need = Need::runs;

  // Returns the resource as kubectl writes it, such as "pods/log" or "networkpolicies.networking.k8s.io".
  [[nodiscard]] std::string resource_text() const;
};

// Returns all rights that combu needs. The rights on one resource follow each other.
[[nodiscard]] std::span<const Right> needed_rights();

// Asks the API server for each right with a SelfSubjectAccessReview, several at once, and returns the rights
// that the user does not have, in the order of needed_rights(). Throws the errors of ApiClient::send().
[[nodiscard]] std::vector<Right> missing_rights(ApiClient& client, const std::string& name_space,
                                                const std::stop_token& stop);

// Returns the name by which the API server knows the user (SelfSubjectReview), such as "alice" or
// "system:serviceaccount:lab:default"; an empty string if the server does not tell it. Throws only
// Error(cancelled).
[[nodiscard]] std::string user_name_of(ApiClient& client, const std::stop_token& stop);

// Returns the Role `combu` with all needed rights in the namespace, as YAML text.
[[nodiscard]] std::string role_for(const std::string& name_space);

// Returns the commands by which an administrator grants all needed rights to `user` (as user_name_of()
// returns it): kubectl creates the Role and a RoleBinding. Has several lines, the last without a line end.
[[nodiscard]] std::string grant_commands(const std::string& name_space, const std::string& user);

}  // namespace combu::kubernetes
