#pragma once
// The secrets of a run in a cluster: one Secret with the values that combu has read, and references to
// Secrets of the cluster, whose values combu does not read.
// https://kubernetes.io/docs/concepts/configuration/secret/

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "combu/engine.hpp"
#include "kubernetes/metadata.hpp"

namespace combu::kubernetes {

// True if a Pod of the trial needs the run's Secret.
[[nodiscard]] bool needs_secret(const Trial& trial);

// Returns the run's Secret without values.
[[nodiscard]] nlohmann::json empty_secret_manifest(const Run& run, const Home& home);
// Returns the run's Secret with the values that its Pods need. Nothing may print the result.
[[nodiscard]] nlohmann::json secret_manifest(const Run& run, const Home& home);

// Adds the trial's secrets to the spec of its Pod: a volume, of which each file is mounted alone, and
// references in the environment. A node may store the environment, so with_supervision() passes variables as
// files. Leaves out each file at whose path the section mounts something.
void add_secrets(nlohmann::json& spec, const Run& run, const Trial& trial, const nlohmann::json& section);

// Returns an error for each Secret of the cluster whose name or key is invalid.
[[nodiscard]] std::vector<Error> check_secret_names(const Experiment& experiment);

// Returns the used sources that are Secrets of the cluster.
[[nodiscard]] std::vector<const SecretSource*> cluster_sources(const Experiment& experiment);

}  // namespace combu::kubernetes
