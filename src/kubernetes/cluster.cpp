#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "combu/kubernetes.hpp"
#include "kubernetes/kubernetes_engine.hpp"
#include "kubernetes/names.hpp"

namespace combu {
namespace {

using kubernetes::Access;
using kubernetes::find_access;

constexpr std::string_view k_name = "kubernetes";
constexpr std::string_view k_prefix = "kube";  // also of misspelt names

std::string address_of(const Access& access) {
  const auto& server = access.cluster.address;
  return fmt::format("{}:{}://{}{}/{}", k_name, server.scheme, server.authority(), server.path,
                     access.name_space);
}

// Returns the folder of Docker's config.json, or an empty text if the user has no home folder.
std::string docker_config(const ClusterEnvironment& env) {
  if (auto folder = env("DOCKER_CONFIG"); folder && !folder->empty()) return *std::move(folder);
  const std::string home = env("HOME").value_or("");
  return home.empty() ? "" : home + "/.docker";
}

std::pair<std::string, std::string> split_at_last_slash(const std::string& text) {
  const std::size_t slash = text.rfind('/');
  if (slash == std::string::npos) return {text, ""};
  return {text.substr(0, slash), text.substr(slash + 1)};
}

// Finds a context with the server and the namespace of a canonical name. `place`: "https://SERVER/NAMESPACE".
Access find_by_address(const ClusterEnvironment& env, const std::string& place) {
  const std::string wanted = fmt::format("{}:{}", k_name, place);
  const std::string name_space = split_at_last_slash(place).second;
  for (const std::string& context : kubernetes::context_names(env)) {
    try {
      Access access = find_access(env, context, name_space);
      if (address_of(access) == wanted) return access;
    } catch (const Error&) {
      continue;  // an invalid context can be another one than the wanted context
    }
  }
  if (Access access = find_access(env, "", name_space); address_of(access) == wanted) return access;
  throw Error(ErrorKind::not_found, wanted,
              "no context of the kubeconfig files has this server; set KUBECONFIG to the file that has");
}

Access find_by_context(const ClusterEnvironment& env, const std::string& text) {
  const auto [context, name_space] = split_at_last_slash(text);
  if (context == text) return find_access(env, text, "");
  const std::vector<std::string> contexts = kubernetes::context_names(env);
  const bool is_context = std::ranges::find(contexts, text) != contexts.end();
  if (is_context) return find_access(env, text, "");
  if (!kubernetes::is_dns_label(name_space))
    throw Error(
        ErrorKind::invalid, "--engine",
        fmt::format("the namespace \"{}\" must be a DNS label, such as `lab`", shortened(name_space)));
  return find_access(env, context, name_space);
}

}  // namespace

bool names_cluster(std::string_view engine) {
  return engine.starts_with(k_prefix);
}

std::vector<std::string> cluster_contexts(const ClusterEnvironment& env) {
  return kubernetes::context_names(env);
}

ClusterPlace find_cluster(const ClusterEnvironment& env, const std::string& engine) {
  if (engine != k_name && !engine.starts_with(fmt::format("{}:", k_name)))
    throw Error(ErrorKind::invalid, "--engine",
                fmt::format("\"{}\" does not name a cluster; write {}, {}:CONTEXT or {}:CONTEXT/NAMESPACE",
                            shortened(engine), k_name, k_name, k_name));
  const std::string text = engine.size() > k_name.size() ? engine.substr(k_name.size() + 1) : "";
  const bool is_address = text.starts_with("https://") || text.starts_with("http://");
  Access access = is_address ? find_by_address(env, text) : find_by_context(env, text);
  ClusterPlace place{.address = address_of(access),
                     .source = fmt::format("context {}, namespace {}", access.context, access.name_space),
                     .open = {}};
  place.open = [access = std::move(access), address = place.address, config = docker_config(env)] {
    return std::make_unique<kubernetes::KubernetesEngine>(access, address,
                                                          kubernetes::KubernetesEngine::Limits{}, config);
  };
  return place;
}

}  // namespace combu
