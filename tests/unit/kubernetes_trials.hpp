#pragma once
// Experiments for tests of the room kubernetes.

#include <fmt/format.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "combu/engine.hpp"
#include "combu/json.hpp"

namespace combu::kubernetes {

// Returns a trial to which `change` has been applied.
inline Trial trial_of(
    const std::string& name, const std::function<void(Trial&)>& change = [](Trial&) {}) {
  Trial trial;
  trial.name = name;
  trial.image = "lab/solver:2";
  change(trial);
  return trial;
}

inline Experiment experiment_of(std::vector<Trial> trials) {
  Experiment experiment;
  experiment.name = "routing";
  experiment.file = "/home/ada/routing.jsonnet";
  for (std::size_t i = 0; i < trials.size(); ++i) trials[i].path = fmt::format("trials[{}]", i);
  experiment.trials = std::move(trials);
  return experiment;
}

inline Run run_of(Experiment experiment, const std::string& id = "k3x9") {
  return {RunId(id), std::move(experiment)};
}

inline Run run_of(Trial trial) {
  return run_of(experiment_of({std::move(trial)}));
}

// Returns each error as "PATH: MESSAGE".
inline std::vector<std::string> texts_of(const std::vector<Error>& errors) {
  std::vector<std::string> texts;
  for (const Error& error : errors) texts.emplace_back(error.what());
  return texts;
}

}  // namespace combu::kubernetes
