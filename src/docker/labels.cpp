#include "docker/labels.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

namespace combu::docker {
namespace {

std::string filter(std::string_view label, std::string_view value) {
  return std::string(label) + "=" + std::string(value);
}

std::optional<int> parse_attempt(std::string_view text) {
  const auto attempt = parse_number<int>(text);
  return attempt && *attempt >= 1 ? attempt : std::nullopt;
}

std::optional<RunId> parse_run(const std::string& text) {
  try {
    return RunId(text);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Labels that another version of combu has set may have another format. CPUs or memory that cannot be parsed
// are taken as zero.
Slots parse_slots(const std::string& cpus, const std::string& memory, const std::string& gpus) {
  Slots slots;
  std::istringstream ids(gpus);
  for (std::string id; std::getline(ids, id, ',');) slots.gpus.push_back(id);
  try {
    if (!cpus.empty()) slots.cpus = parse_cpus(cpus);
    if (!memory.empty()) slots.memory = parse_bytes(memory);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
  }
  return slots;
}

}  // namespace

Labels network_labels_of(const Run& run) {
  return {{k_label_experiment, run.experiment.name},
          {k_label_file, run.experiment.file},
          {k_label_run, run.id.text()}};
}

Labels labels_of(const Run& run, const Trial& trial, int attempt) {
  Labels labels = network_labels_of(run);
  labels[k_label_trial] = trial.name;
  labels[k_label_attempt] = std::to_string(attempt);
  labels[k_label_service] = trial.service ? "true" : "false";
  labels[k_label_supervised] = is_supervised(trial) ? "true" : "false";
  labels[k_label_cpus] = to_string(trial.slots.cpus);
  labels[k_label_memory] = std::to_string(trial.slots.memory.count);
  labels[k_label_gpus] = fmt::format("{}", fmt::join(trial.slots.gpus, ","));
  return labels;
}

std::optional<Identity> identity_of(const Labels& labels, std::string_view name) {
  const auto value = [&](const char* label) {
    const auto at = labels.find(label);
    return at == labels.end() ? std::string() : at->second;
  };
  const std::optional<RunId> run = parse_run(value(k_label_run));
  const std::optional<int> attempt = parse_attempt(value(k_label_attempt));
  Identity identity{{},
                    value(k_label_experiment),
                    value(k_label_file),
                    value(k_label_service) == "true",
                    value(k_label_supervised) == "true",
                    parse_slots(value(k_label_cpus), value(k_label_memory), value(k_label_gpus))};
  if (!run || !attempt || identity.experiment.empty() || name.empty() || value(k_label_trial) != name)
    return std::nullopt;
  identity.key = {*run, std::string(name), *attempt};
  return identity;
}

bool are_labels_of(const Labels& labels, const Run& run, const std::string& trial, int attempt) {
  const std::optional<Identity> identity = identity_of(labels, trial);
  return identity && identity->experiment == run.experiment.name &&
         identity->key == Key{run.id, trial, attempt};
}

std::vector<std::string> label_filters(const Selector& selector) {
  std::vector<std::string> filters;
  if (!selector.experiment.empty()) filters.push_back(filter(k_label_experiment, selector.experiment));
  if (!selector.file.empty()) filters.push_back(filter(k_label_file, selector.file));
  if (selector.run) filters.push_back(filter(k_label_run, selector.run->text()));
  if (filters.empty()) filters.emplace_back(k_label_experiment);
  return filters;
}

std::vector<std::string> label_filters(const Key& key) {
  return {filter(k_label_run, key.run.text()), filter(k_label_trial, key.trial),
          filter(k_label_attempt, std::to_string(key.attempt))};
}

}  // namespace combu::docker
