#pragma once
// Opens a namespace of a Kubernetes cluster as an object with the interface Engine. docs/kubernetes.md
// describes the engine for users.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "combu/base.hpp"
#include "combu/engine.hpp"
#include "combu/spec.hpp"

namespace combu {

// True if a value of --engine is meant to name a Kubernetes cluster: "kubernetes[:CONTEXT[/NAMESPACE]]". The
// record stores "kubernetes:https://SERVER:PORT/NAMESPACE" in place of this, which find_cluster() also
// accepts.
[[nodiscard]] bool names_cluster(std::string_view engine);

using ClusterEnvironment = std::function<std::optional<std::string>(const std::string&)>;

// A namespace of a cluster that a kubeconfig names.
struct ClusterPlace {
  // The canonical name of the server and the namespace: "kubernetes:https://SERVER:PORT/NAMESPACE".
  std::string address;
  std::string source;  // for messages, such as "context lab, namespace alice"
  std::function<std::unique_ptr<Engine>()> open;
};
// Finds the cluster as kubectl does. `engine`: see names_cluster(). If only the part before the last '/' is a
// context, the part behind it is the namespace. Reads the kubeconfig files, but sends nothing to the cluster.
// Throws Error(not_found) or Error(invalid) with the remedy.
[[nodiscard]] ClusterPlace find_cluster(const ClusterEnvironment& env, const std::string& engine);

// Returns the names of the contexts in the kubeconfig files, the current context first. Throws
// Error(invalid).
[[nodiscard]] std::vector<std::string> cluster_contexts(const ClusterEnvironment& env);

// Returns the errors in the trials' `kubernetes` sections, each with its path in the evaluated file. If many
// trials share a section, for example the defaults' section, each of its errors is returned only once. Pure
// function.
[[nodiscard]] std::vector<Error> check_kubernetes_sections(const Experiment& experiment);

// Returns an error for each field of the experiment that a Kubernetes cluster cannot serve, each with the
// field's path in the evaluated file, the reason, and what to write instead. Pure function.
[[nodiscard]] std::vector<Error> check_kubernetes_fields(const Experiment& experiment);

// Returns the objects that the run creates in a cluster, as a YAML stream of JSON documents: the run's
// anchor, its Service and NetworkPolicies, its Secret without values, and the Pod of each trial's first
// attempt in the order of the file. The ConfigMap with a program of combu's own is left out, because it is
// large. Pure function.
[[nodiscard]] std::string kubernetes_manifests(const Run& run, const std::string& name_space);

}  // namespace combu
