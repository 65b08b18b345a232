#include "app/retry_selection.hpp"

#include <algorithm>

namespace combu {

bool ended_unsuccessfully(const Trial& trial, TrialState state) {
  return state == TrialState::failed || (state == TrialState::stopped && !trial.service);
}

void RetrySelection::add(TrialIndex trial, Needs needs) {
  const std::size_t first = trials_.size();
  put(trial);
  put_needs_from(first, needs);
}

void RetrySelection::add_needs_of(TrialIndex trial, Needs needs) {
  const std::size_t first = trials_.size();
  put_needs_of(trial, needs);
  put_needs_from(first, needs);
}

void RetrySelection::add_blocked() {
  // An added trial may itself have blocked other trials: repeat until nothing is added.
  for (std::size_t known = trials_.size() + 1; known != trials_.size();) {
    known = trials_.size();
    for (TrialIndex trial = 0; trial < restored_.size(); ++trial) {
      const RestoredTrial& it = restored_[trial];
      if (it.state != TrialState::blocked || added_[trial]) continue;
      const bool is_by_root = it.root && added_[*it.root];
      const bool is_by_need = std::ranges::any_of(plan_.nodes[trial].needs, [&](const Edge& need) {
        return need.trial < added_.size() && added_[need.trial];
      });
      if (is_by_root || is_by_need) add(trial, Needs::services);
    }
  }
}

void RetrySelection::put(TrialIndex trial) {
  if (added_[trial]) return;
  added_[trial] = true;
  trials_.push_back(trial);
}

void RetrySelection::put_needs_of(TrialIndex trial, Needs needs) {
  for (const Edge& need : plan_.nodes[trial].needs) {
    if (need.trial >= restored_.size()) continue;
    const TrialState state = restored_[need.trial].state;
    const bool has_failed =
        state == TrialState::blocked || ended_unsuccessfully(experiment_.trials[need.trial], state);
    const bool is_wanted =
        (experiment_.trials[need.trial].service && is_over(state)) || (needs == Needs::all && has_failed);
    if (is_wanted) put(need.trial);
  }
}

void RetrySelection::put_needs_from(std::size_t first, Needs needs) {
  for (std::size_t i = first; i < trials_.size(); ++i) put_needs_of(trials_[i], needs);
}

}  // namespace combu
