#include "cli/take_in.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/load.hpp"
#include "cli/recorded.hpp"
#include "cli/run_lock.hpp"
#include "combu/schedule.hpp"

namespace combu {
namespace {

using Alive = std::map<std::string, TrialEntry, std::less<>>;  // by name

Alive alive_on_record(Record& record, const RunId& run) {
  Alive alive;
  for (TrialEntry& entry : record.trials(run)) {
    if (entry.state != TrialState::starting && entry.state != TrialState::running) continue;
    std::string name = entry.name;
    alive.emplace(std::move(name), std::move(entry));
  }
  return alive;
}

// What has ended of these, with its times. A listing may tell of an end a moment late.
std::vector<Sighting> ended_of(Session& session, const RunId& run, const std::vector<Sighting>& listed,
                               const TrialNames& stopped, const Alive& alive) {
  Selector selector{.run = run, .trials = stopped};
  for (const Sighting& seen : listed)
    if (seen.phase == Phase::ended) selector.trials.push_back(seen.key.trial);
  std::erase_if(selector.trials, [&](const std::string& trial) { return !alive.contains(trial); });
  if (selector.trials.empty()) return {};
  std::vector<Sighting> ended = session.engine().list(selector, Look::fully, session.stop());
  std::erase_if(ended, [](const Sighting& seen) { return seen.phase != Phase::ended; });
  return ended;
}

// When it was, by the engine's clock, which may be another than the record's: not before it was started, nor
// after `now`.
Instant moment_of(const Fact& fact, const Sighting& seen, const TrialEntry& entry, Instant now) {
  const auto told = fact.state == TrialState::running ? seen.ran_at : seen.ended_at;
  if (!told) return now;
  return std::clamp(*told, std::min(entry.ran_at.value_or(Instant{}), now), now);
}

void end_if_over(Record& record, const RunId& run) {
  const TrialCounts counts = record.counts(run);
  for (std::size_t state = 0; state < counts.size(); ++state)
    if (counts.at(state) > 0 && !is_over(static_cast<TrialState>(state))) return;
  record.end(run, {});
}

void or_tell(Session& session, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) throw;
    session.progress().note(fmt::format("what has ended is not on record yet: {}", error.what()));
  }
}

}  // namespace

void take_in(Session& session, Record& record, const RunId& run, Intake intake, const TrialNames& stopped) {
  const Alive alive = alive_on_record(record, run);
  if (alive.empty()) return;
  const Look look = intake == Intake::gone_too ? Look::closely : Look::once;
  std::vector<Sighting> listed = session.engine().list({.run = run}, look, session.stop());
  const std::vector<Sighting> ended = ended_of(session, run, listed, stopped, alive);
  if (intake != Intake::gone_too) listed = ended;
  if (intake != Intake::gone_too && ended.empty()) return;
  std::map<std::string_view, const Sighting*> by_name;
  for (const Sighting& seen : ended) by_name.emplace(seen.key.trial, &seen);

  const Loaded loaded = load(record, run);
  const std::vector<Trial>& trials = loaded.run.experiment.trials;
  PlannerOptions options{.until = Until::ended};
  options.past = record.past(run);
  Planner planner(run, loaded.run.experiment, loaded.plan, options);
  const Instant now = real_clock().now();
  const auto is_left = [&](const Fact& fact) {
    const Trial& trial = trials[fact.trial];
    if (fact.state == TrialState::blocked) return true;
    if (intake != Intake::gone_too && !by_name.contains(trial.name)) return true;
    return intake != Intake::last && fact.state == TrialState::failed && trial.retries.max > 0;
  };
  std::vector<Event> events{Begin{}, Interrupt{}};
  for (const std::string& name : stopped) {
    const auto seen = by_name.find(name);
    if (seen == by_name.end()) continue;
    Sighting sighting = *seen->second;
    sighting.stopped = true;
    events.emplace_back(Seen{std::move(sighting)});
  }
  events.emplace_back(ListingBegins{});
  events.emplace_back(Listed{std::move(listed)});
  for (const Event& event : events) {
    Step step = planner.step(event, now);
    std::erase_if(step.facts, is_left);
    for (Fact& fact : step.facts)
      if (const auto seen = by_name.find(trials[fact.trial].name); seen != by_name.end())
        fact.at = moment_of(fact, *seen->second, alive.find(seen->first)->second, now);
    record.append_unwatched(run, step.facts);
  }
  end_if_over(record, run);
}

void take_in_ends(Session& session, Record& record, const RunId& run) {
  or_tell(session, [&] { take_in(session, record, run, Intake::ended); });
}

void take_in_ends(Session& session, const Invocation& invocation,
                  const std::map<RunId, TrialNames>& stopped) {
  const Caller caller = caller_for(invocation);
  if (!Record::exists(state_folder(caller))) return;
  or_tell(session, [&] {
    Record record(state_folder(caller));
    for (const auto& [run, names] : stopped)
      for (const RunEntry& entry : record.runs({.id = run}, 1))
        if (!entry.ended_at && !process_at_work(run, caller))
          take_in(session, record, run, Intake::ended, names);
  });
}

}  // namespace combu
