#include <utility>
#include <variant>
#include <vector>

#include "combu/schedule.hpp"

namespace combu {

LastCollection::LastCollection(const RunId& run, const Experiment& experiment, const Plan& plan,
                               std::vector<RestoredTrial> restored, Instant now)
    : planner_(run, experiment, plan, {.until = Until::ended, .restored = std::move(restored)}) {
  (void)planner_.step(Adjust{.paused = true}, now);
  (void)planner_.step(Interrupt{.for_good = true}, now);
  for (const Command& command : planner_.step(Begin{}, now).commands)
    if (const auto* collect = std::get_if<CollectCommand>(&command)) commands_.push_back(*collect);
}

std::vector<Fact> LastCollection::facts_of(const Collected& answer, Instant now) {
  std::vector<Fact> facts = planner_.step(answer, now).facts;
  std::erase_if(
      facts, [](const Fact& fact) { return !is_over(fact.state) && fact.state != TrialState::collecting; });
  return facts;
}

}  // namespace combu
