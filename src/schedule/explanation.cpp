// Why a trial does not start.

#include "schedule/lifecycle.hpp"

namespace combu::schedule {

Explanation Lifecycle::explain(TrialIndex trial, const Settings& settings) const {
  using Kind = Explanation::Kind;
  const TrialState state = trials.state(trial);
  if (state == TrialState::retrying) return {.kind = Kind::retry};
  if (state != TrialState::waiting && state != TrialState::ready) return {};
  if (state == TrialState::waiting) {
    if (auto unmet = dependencies.unmet(trial); !unmet.empty())
      return {.kind = Kind::dependencies, .unmet = std::move(unmet)};
    if (const auto canary = canaries.awaited_by(trial)) return {.kind = Kind::canary, .first = canary};
    return {.kind = lookups.in_flight() > 0 ? Kind::lookup : Kind::turn};
  }
  if (interrupted) return {.kind = Kind::interrupted};
  if (restoration.awaits_listing()) return {.kind = Kind::listing};
  if (settings.paused) return {.kind = Kind::paused};
  return queue.explain(trial, settings.parallel_max, is_idle());
}

}  // namespace combu::schedule
