#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "combu/json.hpp"
#include "combu/session.hpp"

namespace combu {
namespace {

constexpr std::string_view k_only = "--only";

std::optional<std::string> value_of(const Trial& trial, std::string_view name) {
  if (name == "trial") return trial.name;
  if (name == "image") return trial.image;
  return param_of(trial.params, name);
}

// Returns `pattern` with the run's id in place of k_run_id_word.
std::string put_id(std::string pattern, const RunId& run) {
  const std::string& id = run.text();
  for (std::size_t at = pattern.find(k_run_id_word); at != std::string::npos;
       at = pattern.find(k_run_id_word, at + id.size()))
    pattern.replace(at, k_run_id_word.size(), id);
  return pattern;
}

// Returns a name that `filter` uses although no trial has a value for it; nullopt if there is no such name.
std::optional<std::string> unknown_name(const Experiment& experiment, const Filter& filter) {
  std::map<std::string, bool> is_known;
  for (const Trial& trial : experiment.trials)
    (void)filter.matches([&](std::string_view name, std::string_view /*wanted*/) {
      auto value = value_of(trial, name);
      is_known[std::string(name)] |= value.has_value();
      return value;
    });
  for (const auto& [name, is_one] : is_known)
    if (!is_one) return name;
  return std::nullopt;
}

Error nothing_meant(const Experiment& experiment, const std::string& wanted,
                    const std::optional<Filter>& filter, std::string_view subject) {
  std::string message = "matches no trial";
  if (filter) {
    if (const auto unknown = unknown_name(experiment, *filter))
      message +=
          fmt::format(": no trial has a param `{}`; {}", shortened(*unknown),
                      subject == k_only ? "before a run, conditions can use only params, `trial` and `image`"
                                        : "conditions can use only params, `trial` and `image` here");
  } else {
    std::vector<std::string_view> names;
    names.reserve(experiment.trials.size());
    for (const Trial& trial : experiment.trials) names.emplace_back(trial.name);
    if (const auto near = nearest(wanted, names)) message += fmt::format(": did you mean `{}`?", *near);
  }
  return {ErrorKind::invalid, fmt::format("{} {}", subject, wanted), message};
}

}  // namespace

std::optional<std::string> param_of(const std::string& params, std::string_view name) {
  constexpr std::string_view k_prefix = "params.";
  if (name.starts_with(k_prefix)) name.remove_prefix(k_prefix.size());
  // In most cases, this search makes it unnecessary to parse `params`: most trials lack the param, or have no
  // params at all.
  if (params.find(name) == std::string::npos) return std::nullopt;
  const auto object = parse_json(params);
  const auto found = object.find(name);
  if (found == object.end()) return std::nullopt;
  return unquoted_text(*found);
}

std::vector<TrialIndex> trials_meant(const Experiment& experiment, const RunId& run,
                                     const std::string& wanted, std::string_view subject) {
  // A text with `=`, `<` or `>` is a condition: names and patterns of names never contain these characters.
  // `!` does not mark a condition, since a pattern may contain `!`.
  const bool is_condition = wanted.find_first_of("=<>") != std::string::npos;
  const std::optional<Filter> filter = is_condition ? std::optional(Filter(wanted)) : std::nullopt;
  const std::string with_id = put_id(wanted, run);
  const auto is_named = [&](const Trial& trial) {
    return names_trial(wanted, trial.name) || names_trial(with_id, trial.name);
  };
  std::vector<TrialIndex> trials;
  for (TrialIndex i = 0; i < experiment.trials.size(); ++i) {
    const Trial& trial = experiment.trials[i];
    const bool is_meant = filter ? filter->matches([&](std::string_view name, std::string_view /*wanted*/) {
      return value_of(trial, name);
    })
                                 : is_named(trial);
    if (is_meant) trials.push_back(i);
  }
  if (trials.empty()) throw nothing_meant(experiment, wanted, filter, subject);
  return trials;
}

Experiment only(Experiment experiment, const RunId& run, const Plan& plan,
                const std::vector<std::string>& wanted) {
  std::vector<bool> kept(experiment.trials.size());
  std::vector<TrialIndex> open;
  const auto keep = [&](TrialIndex trial) {
    if (!kept[trial]) open.push_back(trial);
    kept[trial] = true;
  };
  for (const std::string& one : wanted) {
    for (const TrialIndex trial : trials_meant(experiment, run, one, k_only)) keep(trial);
  }
  while (!open.empty()) {
    const TrialIndex trial = open.back();
    open.pop_back();
    for (const Edge& need : plan.nodes[trial].needs) keep(need.trial);
  }
  std::vector<Trial> trials;
  for (TrialIndex trial = 0; trial < kept.size(); ++trial)
    if (kept[trial]) trials.push_back(std::move(experiment.trials[trial]));
  experiment.trials = std::move(trials);
  return experiment;
}

}  // namespace combu
