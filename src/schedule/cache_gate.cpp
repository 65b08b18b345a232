#include "schedule/cache_gate.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace combu::schedule {

CacheGate::CacheGate(const TrialTable& trials, const Plan& plan, bool is_enabled)
    : trials_(trials), plan_(plan), is_enabled_(is_enabled), rows_(trials.size()) {}

bool CacheGate::needs_lookup(TrialIndex trial) const {
  return is_enabled_ && trials_.trial(trial).cache.on && trials_.is_awaited(trial) &&
         rows_[trial] == Lookup::none;
}

bool CacheGate::are_inputs_known(TrialIndex trial) const {
  return std::ranges::all_of(trials_.trial(trial).inputs, [this](const Input& input) {
    return input.trial.empty() || has_succeeded(trials_.state(trials_.find(input.trial).value()));
  });
}

std::vector<TrialIndex> CacheGate::next_lookups(TrialIndex succeeded) const {
  std::vector<TrialIndex> next;
  if (!is_enabled_) return next;
  for (const Edge& edge : plan_.nodes[succeeded].needed_by)
    if (trials_.state(edge.trial) == TrialState::waiting && needs_lookup(edge.trial) &&
        are_inputs_known(edge.trial))
      next.push_back(edge.trial);
  return next;
}

void CacheGate::sent(TrialIndex trial) {
  rows_[trial] = Lookup::in_flight;
  ++in_flight_;
}

bool CacheGate::answered(TrialIndex trial) {
  if (rows_[trial] != Lookup::in_flight) return false;
  rows_[trial] = Lookup::done;
  --in_flight_;
  return true;
}

std::vector<TrialIndex> CacheGate::release() {
  return std::exchange(held_, {});
}

}  // namespace combu::schedule
