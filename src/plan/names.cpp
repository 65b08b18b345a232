#include "plan/names.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace combu::plan {

namespace {

struct Repeated {
  TrialIndex first;
  TrialIndex second;
  std::size_t more = 0;
};

}  // namespace

std::string path_of(const Trial& trial, TrialIndex at) {
  return trial.path.empty() ? fmt::format("[{}]", at) : trial.path;
}

Names::Names(const Experiment& experiment, std::vector<Error>& errors) {
  const auto& trials = experiment.trials;
  index_.reserve(trials.size());
  all_.reserve(trials.size());
  std::vector<Repeated> repeated;
  std::unordered_map<TrialIndex, std::size_t> repeated_by_first;
  for (TrialIndex at = 0; at < trials.size(); ++at) {
    if (trials[at].name.empty()) continue;
    const auto [same, is_new] = index_.emplace(trials[at].name, at);
    if (is_new) {
      all_.emplace_back(trials[at].name);
      continue;
    }
    const auto [known, is_second] = repeated_by_first.emplace(same->second, repeated.size());
    if (is_second) {
      repeated.push_back({same->second, at});
    } else {
      ++repeated[known->second].more;
    }
  }
  for (const auto& [first, second, more] : repeated) {
    const std::string others = more == 0 ? "" : fmt::format(" (and of {} more)", more);
    errors.emplace_back(ErrorKind::invalid, path_of(trials[second], second) + ".name",
                        fmt::format("`{}` is also the name of {}{}; every trial must have its own name",
                                    shortened(trials[first].name), path_of(trials[first], first), others));
  }
}

std::optional<TrialIndex> Names::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? std::nullopt : std::optional(found->second);
}

void UnknownNames::add(const Trial& trial, const Depend& depend) {
  const auto [known, is_new] = index_.emplace(depend.trial, unknown_.size());
  if (is_new) {
    unknown_.push_back({&trial, &depend});
  } else {
    ++unknown_[known->second].more;
  }
}

void UnknownNames::report(std::vector<Error>& errors) const {
  // Each search for a similar name compares all names. These limits keep the number of suggestions small, and
  // the time linear in the number of trials.
  constexpr std::size_t k_looks_max = 20;
  constexpr std::size_t k_names_compared_max = 100'000;
  std::size_t looks =
      std::clamp<std::size_t>(k_names_compared_max / (names_.all().size() + 1), 1, k_looks_max);
  for (const auto& [trial, depend, more] : unknown_) {
    std::string message = fmt::format("no trial is named `{}`", shortened(depend->trial));
    if (looks > 0) {
      --looks;
      if (const auto meant = nearest(depend->trial, names_.all())) {
        message += fmt::format(": did you mean `{}`?", *meant);
      }
    }
    if (more > 0) message += fmt::format(" (and {} more like this)", more);
    if (!trial->name.empty()) message += fmt::format(" (trial `{}`)", shortened(trial->name));
    errors.emplace_back(ErrorKind::invalid, depend->path, message);
  }
}

}  // namespace combu::plan
