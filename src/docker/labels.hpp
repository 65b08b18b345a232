#pragma once
// The labels that combu sets on containers. combu finds the containers of attempts by these labels.

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
// combu sets all labels on every container, so that no container inherits a label of combu. An image made
// from a container (`docker commit`) has the container's labels, and a new container inherits from the image
// each label that is not set.
inline constexpr const char* k_label_service = "combu.service";  // "true" or "false"
// "true" if the first process of the container is the agent, which runs the program of the trial when it has
// the secrets.
inline constexpr const char* k_label_supervised = "combu.supervised";
// CPUs that the attempt reserves on its host, for example "1.5", or "0" for none.
inline constexpr const char* k_label_cpus = "combu.cpus";
// Bytes of memory that the attempt reserves, or "0" for none.
inline constexpr const char* k_label_memory = "combu.memory";
// Ids (Gpu::id) of the reserved GPUs, for example "0,1"; empty for none.
inline constexpr const char* k_label_gpus = "combu.gpus";
// combu sets this label on the volumes that hold its own programs, and on the containers that fill them.
inline constexpr const char* k_label_program = "combu.program";

using Labels = std::map<std::string, std::string, std::less<>>;

struct Identity {
  Key key;
  std::string experiment;
  std::string file;
  bool service = false;
  bool supervised = false;
  Slots slots;
};

[[nodiscard]] Labels labels_of(const Run& run, const Trial& trial, int attempt);
[[nodiscard]] Labels network_labels_of(const Run& run);

// Returns nullopt if combu did not create the container: labels are missing or invalid, or come from another
// container, from which this container's image was made. `name`: the name of this container.
[[nodiscard]] std::optional<Identity> identity_of(const Labels& labels, std::string_view name);

// True if `labels` belong to this attempt of this experiment. `labels` are those of the container with the
// trial's name.
[[nodiscard]] bool are_labels_of(const Labels& labels, const Run& run, const std::string& trial, int attempt);

// Returns the `label` filters of a selector, such as "combu.run=x". The filters do not contain the selector's
// trials, because the engine cannot filter for containers whose label has one of several values.
[[nodiscard]] std::vector<std::string> label_filters(const Selector& selector);
[[nodiscard]] std::vector<std::string> label_filters(const Key& key);

}  // namespace combu::docker
