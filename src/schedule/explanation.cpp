// Explains why a trial does not start.

#include <algorithm>
#include <utility>

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
  Explanation why = queue.explain(trial, settings.parallel_max, is_idle());
  const bool is_next = why.kind == Kind::nothing || why.kind == Kind::turn;
  if (is_next && !may_start_pending()) return {.kind = Kind::pending};
  return why;
}

}  // namespace combu::schedule

namespace combu {

namespace {

// False for obstacles that only the process that drives the run can know.
bool is_known_obstacle(Explanation::Kind kind) {
  using Kind = Explanation::Kind;
  return kind == Kind::dependencies || kind == Kind::canary || kind == Kind::paused || kind == Kind::place ||
         kind == Kind::limit || kind == Kind::slots || kind == Kind::overtaken || kind == Kind::room;
}

bool wants_slots(const Trial& trial) {
  return !trial.slots.empty() || !trial.gpus->empty();
}

bool are_starts_at_limit(const RunSituation& situation) {
  const auto starting = std::ranges::count(situation.restored, TrialState::starting, &RestoredTrial::state);
  return std::cmp_greater_equal(starting, situation.settings.starts_in_flight_max);
}

}  // namespace

// The function sets `starts_in_flight_max` to 0, so that its planner starts no attempt.
Explanation explain(const RunSituation& situation, TrialIndex trial) {
  PlannerOptions options{.capacity = situation.capacity,
                         .limits = situation.limits,
                         .restored = situation.restored,
                         .began_at = situation.now};
  if (options.capacity)
    for (const std::string& gpu : options.capacity->gpus)
      options.gpus.push_back({.id = gpu, .uuid = {}, .kind = {}, .memory = {}});
  Planner planner(situation.run, situation.experiment, situation.plan, std::move(options));
  const Adjust settings{.parallel_max = situation.settings.parallel_max,
                        .starts_in_flight_max = 0,
                        .paused = situation.settings.paused};
  const Assumed others{situation.held_by_others};
  for (const Event& event : {Event(settings), Event(Begin{}), Event(others)})
    (void)planner.step(event, situation.now);
  Explanation why = planner.explain(trial);
  if (is_known_obstacle(why.kind)) return why;
  const bool wants = wants_slots(situation.experiment.trials[trial]);
  if (wants && !situation.capacity) return {.kind = Explanation::Kind::slots};
  // Only the limit of starts in flight can delay a trial that requests no slots.
  if (!wants || are_starts_at_limit(situation)) return {.kind = Explanation::Kind::starts};
  return why;
}

}  // namespace combu
