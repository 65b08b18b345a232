#include "plan/inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace combu::plan {

namespace {

std::string outputs_text(const Trial& trial) {
  if (trial.outputs.empty()) return "that trial has no `outputs`";
  constexpr std::size_t k_shown = 3;
  std::string text = "its outputs are ";
  for (std::size_t i = 0; i < std::min(k_shown, trial.outputs.size()); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", shortened(trial.outputs[i].path));
  return trial.outputs.size() > k_shown ? text + ", …" : text;
}

bool leaves(const Trial& trial, const std::string& path) {
  return std::ranges::any_of(
      trial.outputs, [&](const Output& one) { return path == one.path || path.starts_with(one.path + '/'); });
}

}  // namespace

bool is_of_input(const Trial& trial, const Depend& depend) {
  return std::ranges::any_of(trial.inputs, [&](const Input& input) {
    return input.trial == depend.trial && input.path == depend.path;
  });
}

void report_inputs(const Experiment& experiment, const Names& names, std::vector<Error>& errors) {
  for (const Trial& trial : experiment.trials) {
    for (const Input& input : trial.inputs) {
      if (input.trial.empty()) continue;
      const auto found = names.find(input.trial);
      if (!found || leaves(experiment.trials[*found], input.from)) continue;
      errors.emplace_back(
          ErrorKind::invalid, input.path,
          fmt::format("`{}` has no output {}: {} (trial `{}`)", shortened(input.trial), shortened(input.from),
                      outputs_text(experiment.trials[*found]), shortened(trial.name)));
    }
  }
}

}  // namespace combu::plan
