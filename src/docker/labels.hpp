#pragma once
// The labels that combu sets on containers, and by which it finds attempts again.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "combu/engine.hpp"

namespace combu::docker {

inline constexpr std::string_view k_label_prefix = "combu.";
inline constexpr const char* k_label_experiment = "combu.experiment";
inline constexpr const char* k_label_file = "combu.file";
inline constexpr const char* k_label_run = "combu.run";
inline constexpr const char* k_label_trial = "combu.trial";
inline constexpr const char* k_label_attempt = "combu.attempt";
// Every container carries all labels: an image made from a container (`docker commit`) has its labels, and
// passes them on to containers that do not set their own.
inline constexpr const char* k_label_service = "combu.service";  // "true" or "false"
// "1.5": CPUs that the attempt reserves on its host; 0: none
inline constexpr const char* k_label_cpus = "combu.cpus";
// Bytes of memory that the attempt reserves; 0: none.
inline constexpr const char* k_label_memory = "combu.memory";
inline constexpr const char* k_label_gpus = "combu.gpus";  // "0,1": Gpu::id of each; empty: none

using Labels = std::map<std::string, std::string, std::less<>>;

struct Identity {
  Key key;
  std::string experiment;
  std::string file;
  bool service = false;
  Slots slots;
};

[[nodiscard]] Labels labels_of(const Run& run, const Trial& trial, int attempt);
[[nodiscard]] Labels network_labels_of(const Run& run);

// Returns nullopt if the container is not combu's: labels are missing or invalid, or they belong to another
// container from which this container's image was made. `name`: the name of this container.
[[nodiscard]] std::optional<Identity> identity_of(const Labels& labels, std::string_view name);

// True if these labels, of the container with the trial's name, belong to this attempt of this experiment.
[[nodiscard]] bool are_labels_of(const Labels& labels, const Run& run, const std::string& trial, int attempt);

// Returns the `label` filters ("combu.run=x") of the selector, without its trials: a filter cannot express
// "one of".
[[nodiscard]] std::vector<std::string> label_filters(const Selector& selector);
[[nodiscard]] std::vector<std::string> label_filters(const Key& key);

}  // namespace combu::docker
