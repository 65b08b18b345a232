#include "app/reconcile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/load.hpp"
#include "app/runs.hpp"
#include "combu/schedule.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

using Alive = std::map<std::string, TrialEntry, std::less<>>;  // by name

Alive alive_on_record(Record& record, const RunId& run) {
  Alive alive;
  for (TrialEntry& entry : record.trials(run)) {
    if (!is_alive(entry.state)) continue;
    std::string name = entry.name;
    alive.emplace(std::move(name), std::move(entry));
  }
  return alive;
}

// What has ended of these, or runs without its start's being on record, with its times. A listing may tell of
// an end a moment late.
std::vector<Sighting> news_of(Session& session, const RunId& run, const std::vector<Sighting>& listed,
                              const TrialNames& stopped, const Alive& alive) {
  const auto is_news = [&](const Sighting& seen) {
    if (seen.phase == Phase::ended) return true;
    const auto found = alive.find(seen.key.trial);
    return seen.phase == Phase::running && found != alive.end() &&
           found->second.state == TrialState::starting;
  };
  Selector selector{.run = run, .trials = stopped};
  for (const Sighting& seen : listed)
    if (is_news(seen)) selector.trials.push_back(seen.key.trial);
  std::erase_if(selector.trials, [&](const std::string& trial) { return !alive.contains(trial); });
  if (selector.trials.empty()) return {};
  std::vector<Sighting> news = session.engine().list(selector, Look::fully, session.stop());
  std::erase_if(news, [&](const Sighting& seen) { return !is_news(seen); });
  return news;
}

// When it was, by the engine's clock, which may be another than the record's: not before it was started, nor
// after `now`.
Instant moment_of(const Fact& fact, const Sighting& seen, const TrialEntry& entry, Instant now) {
  const auto told = fact.state == TrialState::running ? seen.ran_at : seen.ended_at;
  // Also when the machine's clock was set back.
  return std::max(std::min(told.value_or(now), now), entry.ran_at.value_or(Instant{}));
}

Break break_of(const Sighting& seen, std::optional<Instant> engine_began_at) {
  if (!seen.ran_at || !engine_began_at) return Break::was;
  return *engine_began_at > *seen.ran_at ? Break::was : Break::was_not;
}

// Those that change what is known, in the order in which they are told.
std::vector<Fact> facts_of(Planner& planner, const std::vector<Event>& events, Instant now) {
  std::vector<Fact> facts;
  for (const Event& event : events)
    for (Fact& fact : planner.step(event, now).facts) facts.push_back(std::move(fact));
  return facts;
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

void take_in(Session& session, Record& record, const RunId& run, Intake intake, const TrialNames& stopped,
             std::optional<std::vector<Sighting>> listed) {
  const Record::Stamp stamp = record.stamp(run);
  const Alive alive = alive_on_record(record, run);
  if (alive.empty()) return;
  if (!listed) listed = session.engine().list({.run = run}, Look::closely, session.stop());
  const std::vector<Sighting> news = news_of(session, run, *listed, stopped, alive);
  std::map<std::string_view, const Sighting*> by_name;
  for (const Sighting& seen : news) by_name.emplace(seen.key.trial, &seen);
  std::set<std::string_view> there;
  for (const Sighting& seen : *listed) there.insert(seen.key.trial);
  const bool none_is_gone =
      std::ranges::all_of(alive, [&](const auto& one) { return there.contains(one.first); });
  if (news.empty() && none_is_gone) return;

  const Loaded loaded = load(record, run, Texts::newest);
  const std::vector<Trial>& trials = loaded.run.experiment.trials;
  PlannerOptions options{.until = Until::ended};
  options.past = record.past(run);
  const Instant now = real_clock().now();
  options.began_at = now;  // a deadline is for who goes on with it
  options.engine_began_at = session.engine().facts(session.stop()).began_at;
  Planner planner(run, loaded.run.experiment, loaded.plan, options);
  std::vector<Event> events{Adjust{.paused = true}, Begin{}};
  if (intake == Intake::last) events.emplace_back(Interrupt{.for_good = true});
  events.emplace_back(Adjust{.stopping = stopped, .stopper = user_name()});
  for (const Sighting& seen : news) {
    Seen event{.sighting = seen, .engine = break_of(seen, options.engine_began_at)};
    if (std::ranges::find(stopped, seen.key.trial) != stopped.end()) event.sighting.stopped = true;
    events.emplace_back(std::move(event));
  }
  events.emplace_back(ListingBegins{});
  events.emplace_back(Listed{std::move(*listed)});

  std::vector<Fact> facts = facts_of(planner, events, now);
  std::erase_if(facts, [&](const Fact& fact) {
    const auto was_alive = alive.find(trials[fact.trial].name);
    if (fact.state == TrialState::blocked) return !fact.root;
    if (was_alive == alive.end()) return true;
    // Its next attempt is for who goes on with the run.
    return fact.state == TrialState::ready && fact.attempt > was_alive->second.attempt;
  });
  for (Fact& fact : facts) {
    const auto seen = by_name.find(trials[fact.trial].name);
    if (seen == by_name.end()) {
      if (fact.cause == Cause::stopped && !fact.exit_code) {
        fact.reason = "its container is gone, and how it ended is not on record";
        fact.details = {};
      }
      continue;
    }
    fact.at = moment_of(fact, *seen->second, alive.find(seen->first)->second, now);
  }
  (void)record.append_unwatched(run, facts, stamp);
}

void take_in_all(Session& session, Record& record, const RunId& run) {
  or_tell(session, [&] { take_in(session, record, run, Intake::all); });
}

void take_in_all(Session& session, const Invocation& invocation, const std::map<RunId, TrialNames>& stopped) {
  const Caller caller = caller_for(invocation);
  if (!Record::exists(state_folder(caller))) return;
  or_tell(session, [&] {
    Record record(state_folder(caller));
    for (const auto& [run, names] : stopped)
      for (const RunEntry& entry : record.runs({.id = run}, 1))
        if (!entry.ended_at && !process_at_work(run, caller))
          take_in(session, record, run, Intake::all, names);
  });
}

}  // namespace combu
