#pragma once
// How an attempt is found again: the labels that its container carries.

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
// All of them on every container: an image made from one (`docker commit`) has its labels, and gives them to
// what does not say otherwise.
inline constexpr const char* k_label_service = "combu.service";  // "true" or "false"
inline constexpr const char* k_label_cpus = "combu.cpus";      // "1.5": what it holds of the host, as others
inline constexpr const char* k_label_memory = "combu.memory";  // bytes     count it; 0: nothing
inline constexpr const char* k_label_gpus = "combu.gpus";      // "0,1": Gpu::id of each; empty: none

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

// nullopt when it is not ours: when they are not all there and sound, or are those of another container,
// which the image of this one was made from (`name`: this one's).
[[nodiscard]] std::optional<Identity> identity_of(const Labels& labels, std::string_view name);

// Whether the labels of the container that has the trial's name are those of this attempt of this experiment.
[[nodiscard]] bool are_labels_of(const Labels& labels, const Run& run, const std::string& trial, int attempt);

// The `label` filters ("combu.run=x") of what the selector selects, but for its trials: a filter cannot say
// "one of".
[[nodiscard]] std::vector<std::string> label_filters(const Selector& selector);
[[nodiscard]] std::vector<std::string> label_filters(const Key& key);

}  // namespace combu::docker
