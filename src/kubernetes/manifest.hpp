#pragma once
// The objects of a run in a cluster, as pure functions of the run. networks.hpp has the objects of networks.
// https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "combu/engine.hpp"
#include "combu/spec.hpp"
#include "kubernetes/metadata.hpp"
#include "kubernetes/networks.hpp"  // IWYU pragma: export

namespace combu::kubernetes {

// Returns the ConfigMap that owns all other objects of the run.
[[nodiscard]] nlohmann::json anchor_manifest(const Run& run);

// Returns the ConfigMap with a program of combu's own, which all Pods of the run with this program mount.
[[nodiscard]] nlohmann::json program_manifest(const Run& run, const ProvidedProgram& program,
                                              const Home& home);

// Returns the Pod of an attempt. `trial`: a trial of the run without fields that check_fields() refuses, and
// without errors in its section. The section is merged into the Pod last, but combu's own labels and
// annotations and the required memory of GPUs stay.
[[nodiscard]] nlohmann::json pod_manifest(const Run& run, const Trial& trial, int attempt, const Home& home);

// Returns an error for each field of the experiment that Pods cannot have, each with the field's path in the
// evaluated file, the reason, and what to write instead. If trials share an error, the error names the first
// of them and the number of the others. A field that has a counterpart in the Kubernetes API is no error if
// the trial's `kubernetes` section sets this counterpart: one file can serve several engines.
[[nodiscard]] std::vector<Error> check_fields(const Experiment& experiment);

}  // namespace combu::kubernetes
