// Computes the facts about changes of a run that no process drives. A planner is restored from the record and
// gets the change as an event. The planner returns the facts that the record lacks.

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "combu/schedule.hpp"
#include "schedule/failure.hpp"

namespace combu {
namespace {

std::vector<Fact> facts_after(Planner& planner, const std::vector<Event>& events, Instant now) {
  std::vector<Fact> facts;
  for (const Event& event : events)
    std::ranges::move(planner.step(event, now).facts, std::back_inserter(facts));
  return facts;
}

// Applies the events to a plan whose trials have no dependencies and no slots. No attempt starts, because a
// restored run waits for a listing.
std::vector<Fact> facts_of_events(const RunId& run, std::vector<RestoredTrial> restored,
                                  std::vector<Event> events, Instant now) {
  Experiment experiment;
  experiment.trials.resize(restored.size());
  Plan plan;
  plan.nodes.resize(restored.size());
  Planner planner(run, experiment, plan, {.restored = std::move(restored), .began_at = now});
  events.insert(events.begin(), Begin{});
  return facts_after(planner, events, now);
}

std::vector<Event> events_of(const Unattended& unattended) {
  std::vector<Event> events{Adjust{.paused = true}, AttemptsFound{unattended.listed}, Begin{}};
  if (unattended.is_final) events.emplace_back(Interrupt{.for_good = true});
  events.emplace_back(Adjust{.stopping = unattended.stopped, .stopper = unattended.stopper});
  for (const Observation& seen : unattended.changed) {
    Observed event{.observation = seen,
                   .engine = schedule::break_since(seen.ran_at, unattended.engine_began_at)};
    if (std::ranges::find(unattended.stopped, seen.key.trial) != unattended.stopped.end())
      event.observation.stopped = true;
    events.emplace_back(std::move(event));
  }
  events.emplace_back(ListingBegins{});
  events.emplace_back(Listed{unattended.listed});
  return events;
}

}  // namespace

std::vector<Fact> facts_of_kill(const RunId& run, std::span<const std::string> trials,
                                std::vector<RestoredTrial> restored, std::span<const std::string> kept,
                                Instant now) {
  if (restored.empty()) return {};
  const std::unordered_set<std::string_view> kept_names(kept.begin(), kept.end());
  Killed killed;
  for (TrialIndex trial = 0; trial < trials.size(); ++trial)
    if (kept_names.contains(trials[trial])) killed.kept.push_back(trial);
  return facts_of_events(run, std::move(restored), {std::move(killed)}, now);
}

std::vector<Fact> facts_of_edits(const RunId& run, std::vector<RestoredTrial> restored, TrialEdits edits,
                                 Instant now) {
  if (edits.removed.empty() && edits.reopened.empty()) return {};
  return facts_of_events(run, std::move(restored),
                         {Removed{std::move(edits.removed)}, Reopened{std::move(edits.reopened)}}, now);
}

std::vector<Fact> reconcile(const RunId& run, const Experiment& experiment, const Plan& plan,
                            std::vector<RestoredTrial> restored, const Unattended& seen, Instant now) {
  // With `began_at = now`, no deadline has passed: the process that continues the run handles the deadline.
  Planner planner(run, experiment, plan,
                  {.until = Until::ended,
                   .restored = restored,
                   .began_at = now,
                   .engine_began_at = seen.engine_began_at});
  std::vector<Fact> facts = facts_after(planner, events_of(seen), now);
  for (const Fact& fact : facts) {
    RestoredTrial& trial = restored[fact.trial];
    if (fact.state != TrialState::starting || trial.state != TrialState::waiting) continue;
    trial.state = fact.state;
    trial.attempt = fact.attempt;
  }
  std::erase_if(facts, [&](const Fact& fact) {
    if (fact.state == TrialState::blocked) return !fact.root;
    const RestoredTrial& trial = restored[fact.trial];
    const bool is_next_attempt = fact.state == TrialState::ready && fact.attempt > trial.attempt;
    return !is_alive(trial.state) || is_next_attempt;
  });
  return facts;
}

std::optional<Fact> end_of_unrecorded(const Observation& seen) {
  if (seen.phase != Phase::gone && seen.phase != Phase::ended) return std::nullopt;
  Ending ending = ending_of(seen);
  return Fact{.state = state_of(ending),
              .attempt = seen.key.attempt,
              .cause = ending.cause,
              .exit_code = seen.exit_code,
              .reason = std::move(ending.reason),
              .details = std::move(ending.details),
              .at = seen.ended_at.value_or(Instant{})};
}

bool are_all_over(std::span<const RestoredTrial> restored, std::span<const Fact> facts) {
  std::vector<bool> is_over_now;
  is_over_now.reserve(restored.size());
  for (const RestoredTrial& trial : restored) is_over_now.push_back(is_over(trial.state));
  for (const Fact& fact : facts)
    if (!reports_stop(fact) && !fact.healthy) is_over_now[fact.trial] = is_over(fact.state);
  return std::ranges::all_of(is_over_now, [](bool over) { return over; });
}

}  // namespace combu
