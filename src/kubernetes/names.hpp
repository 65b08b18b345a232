#pragma once
// The names, labels and annotations of combu's objects in a cluster.

#include <string>
#include <string_view>
#include <vector>

#include "combu/base.hpp"
#include "combu/engine.hpp"

namespace combu::kubernetes {

// Labels of every object. If a text is no valid label value, the label has a hash of the text, and the
// annotation with the same name has the text itself.
inline constexpr const char* k_experiment = "combu.experiment";
inline constexpr const char* k_file = "combu.file";
inline constexpr const char* k_run = "combu.run";
// Labels of Pods.
inline constexpr const char* k_trial = "combu.trial";
inline constexpr const char* k_attempt = "combu.attempt";
// Label of the Pods on named networks, which the run's Service selects. The value is that of k_run.
inline constexpr const char* k_named = "combu.named";
// Annotations of Pods.
inline constexpr const char* k_service = "combu.service";  // "true" for Trial::service
inline constexpr const char* k_cpus = "combu.cpus";        // Slots::cpus, for example "1.5"; absent: none
inline constexpr const char* k_memory = "combu.memory";    // Slots::memory in bytes; absent: none
// "true" if the first process is a program of combu's own, which runs the trial's program.
inline constexpr const char* k_supervised = "combu.supervised";
// "true": ContainerSettings::awaits_delivery.
inline constexpr const char* k_awaits_delivery = "combu.awaits_delivery";
// "ended": Experiment::keep. "volume": the Pod has ContainerSettings::kept_folders.
inline constexpr const char* k_keep = "combu.keep";
// Set before combu stops or deletes a Pod: the moment by the API server's clock, for example
// "2026-01-31T12:00:00.000Z". Also an annotation of a run's anchor, set before combu deletes the run's Pods.
inline constexpr const char* k_stopped = "combu.stopped";
// Healthcheck::start_period in seconds, for example "30" or "0.5"; absent: none.
inline constexpr const char* k_start_period = "combu.start-period";
// All labels and annotations of combu begin with this text.
inline constexpr std::string_view k_prefix = "combu.";

// The name of the container in which a Pod runs its attempt.
inline constexpr const char* k_container = "main";
// The begin of the names of Pods that are not created, but only checked by the API server.
inline constexpr const char* k_check_prefix = "combu-check-";

// The name of the run's anchor, a ConfigMap that owns all objects of the run, and of the run's Service.
[[nodiscard]] std::string anchor_name(const RunId& run);
// The name of the attempt's Pod: "TRIAL-RUN-ATTEMPT", a DNS label of at most 63 characters. If the trial's
// name is changed or shortened for this, the name contains a hash of the trial's name. Deterministic, and
// different for different keys.
[[nodiscard]] std::string pod_name(const Key& key);
// The label of the Pods on a named network. The label's value is "true".
[[nodiscard]] std::string network_label(std::string_view network);
// The names of the NetworkPolicies that isolate a network, and that open the ports of a trial.
[[nodiscard]] std::string network_policy_name(const RunId& run, std::string_view network);
[[nodiscard]] std::string port_policy_name(const RunId& run, std::string_view trial);
// The name of the ConfigMap that has a program of combu's own.
[[nodiscard]] std::string program_name(const RunId& run, const ProvidedProgram& program);
// The name of the Secret that has the values of the run's secrets.
[[nodiscard]] std::string secret_name(const RunId& run);
// Returns `text` if it is a valid label value, and otherwise a valid label value that contains a hash of
// `text`.
[[nodiscard]] std::string label_value(std::string_view text);
// Returns the labelSelector of a selector, such as "combu.run=x", not yet percent-encoded. The labelSelector
// selects trials only if the selector names at most 20 of them; otherwise it selects the attempts of all
// trials.
[[nodiscard]] std::string label_selector(const Selector& selector);
// Returns the labelSelector of the attempts with the number `attempt` of some trials, not yet
// percent-encoded.
[[nodiscard]] std::string label_selector(const RunId& run, const std::vector<std::string>& trials,
                                         int attempt);
// True if `text` is a DNS label (RFC 1123): at most 63 lower-case letters, digits and '-', which is neither
// first nor last.
[[nodiscard]] bool is_dns_label(std::string_view text);
// True if `text` is a DNS subdomain: DNS labels of any length that are joined by '.', at most 253 characters
// in all. The names of most objects in a cluster are DNS subdomains.
[[nodiscard]] bool is_dns_subdomain(std::string_view text);
// True if `text` is empty, or has at most 63 letters, digits, '-', '_' and '.', of which the first and the
// last are letters or digits.
[[nodiscard]] bool is_label_value(std::string_view text);
// True if `text` is a valid key of labels and annotations: a label value that is not empty, or such a value
// behind a DNS subdomain and '/'.
[[nodiscard]] bool is_label_key(std::string_view text);
// Returns `text` with its ASCII letters in lower case.
[[nodiscard]] std::string in_lower_case(std::string_view text);

}  // namespace combu::kubernetes
