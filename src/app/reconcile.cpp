#include "app/reconcile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/load.hpp"
#include "combu/schedule.hpp"
#include "combu/session.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

using OpenTrials = std::map<std::string, TrialEntry, std::less<>>;  // by name

// Returns the trials that may have an attempt on the engine.
OpenTrials open_on_record(Record& record, const RunId& run) {
  OpenTrials open;
  for (TrialEntry& entry : record.trials(run)) {
    if (!may_have_attempt(entry.state)) continue;
    std::string name = entry.name;
    open.emplace(std::move(name), std::move(entry));
  }
  return open;
}

// Returns full observations, with timestamps, of the attempts whose recorded state is out of date; they
// replace those in `listed`. Also lists the trials in `stopped` again, since `listed` may not yet contain the
// ends of their attempts.
std::vector<Observation> changed_of(Session& session, const RunId& run, std::vector<Observation>& listed,
                                    const TrialNames& stopped, const OpenTrials& open) {
  const auto is_news = [&](const Observation& seen) {
    const auto found = open.find(seen.key.trial);
    return found != open.end() && is_behind(found->second, &seen);
  };
  Selector selector{.run = run, .trials = stopped};
  for (const Observation& seen : listed)
    if (is_news(seen)) selector.trials.push_back(seen.key.trial);
  std::erase_if(selector.trials, [&](const std::string& trial) { return !open.contains(trial); });
  if (selector.trials.empty()) return {};
  std::vector<Observation> changed = session.engine().list(selector, ListDetail::full, session.stop());
  std::map<Key, const Observation*> by_key;
  for (const Observation& seen : changed) by_key.emplace(seen.key, &seen);
  for (Observation& seen : listed)
    if (const auto found = by_key.find(seen.key); found != by_key.end()) seen = *found->second;
  std::erase_if(changed, [&](const Observation& seen) { return !is_news(seen); });
  return changed;
}

bool is_behind(const OpenTrials& open, const std::vector<Observation>& listed) {
  std::map<std::string_view, const Observation*> by_name;
  for (const Observation& seen : listed) by_name.emplace(seen.key.trial, &seen);
  return std::ranges::any_of(open, [&](const auto& one) {
    const auto found = by_name.find(one.first);
    return is_behind(one.second, found == by_name.end() ? nullptr : found->second);
  });
}

// Adds the usage that the engine has measured to the facts about the ends of attempts.
void add_usage(std::vector<Fact>& facts, const Experiment& experiment,
               const std::vector<Observation>& observations) {
  std::map<std::pair<std::string_view, int>, const Usage*> measured;
  for (const Observation& seen : observations)
    if (seen.usage)
      measured.emplace(std::pair(std::string_view(seen.key.trial), seen.key.attempt), &*seen.usage);
  for (Fact& fact : facts) {
    if (is_alive(fact.state)) continue;
    const auto found = measured.find({experiment.trials[fact.trial].name, fact.attempt});
    if (found != measured.end()) fact.usage = *found->second;
  }
}

// The recorded state of a run, and the facts that the record lacks.
struct MissingFacts {
  Record::Stamp stamp{};
  Loaded loaded;
  std::vector<RestoredTrial> restored;
  std::vector<Fact> facts;
  std::vector<Started> started;
};

// Returns the digests of images that the engine has reported for attempts of trials with `cache`.
std::vector<Started> digests_of(const Experiment& experiment, const std::vector<Observation>& observations) {
  std::map<std::string_view, TrialIndex> cached;
  for (TrialIndex trial = 0; trial < experiment.trials.size(); ++trial)
    if (experiment.trials[trial].cache.on) cached.emplace(experiment.trials[trial].name, trial);
  std::vector<Started> started;
  for (const Observation& seen : observations)
    if (const auto found = cached.find(seen.key.trial); found != cached.end() && !seen.digest.empty())
      started.push_back({.trial = found->second,
                         .attempt = seen.key.attempt,
                         .inputs = {},
                         .digest = digest_in(seen.digest)});
  return started;
}

std::optional<MissingFacts> find_missing(Session& session, Record& record, const RunId& run, Outlook outlook,
                                         const TrialNames& stopped,
                                         std::optional<std::vector<Observation>> listed) {
  const Record::Stamp stamp = record.stamp(run);
  const OpenTrials open = open_on_record(record, run);
  if (open.empty()) return std::nullopt;
  if (!listed) listed = session.engine().list({.run = run}, ListDetail::consistent, session.stop());
  std::vector<Observation> changed = changed_of(session, run, *listed, stopped, open);
  if (changed.empty() && !is_behind(open, *listed)) return std::nullopt;
  MissingFacts result{.stamp = stamp,
                      .loaded = load(record, run, Texts::newest),
                      .restored = record.restored_trials(run),
                      .facts = {},
                      .started = {}};
  const combu::Run& of = result.loaded.run;
  const std::vector<Observation> observations = changed;
  result.facts = reconcile(run, of.experiment, result.loaded.plan, result.restored,
                           {.listed = std::move(*listed),
                            .changed = std::move(changed),
                            .stopped = stopped,
                            .stopper = user_name(),
                            .is_final = outlook == Outlook::ended,
                            .engine_began_at = session.engine().facts(session.stop()).began_at},
                           real_clock().now());
  add_usage(result.facts, of.experiment, observations);
  result.started = digests_of(of.experiment, observations);
  return result;
}

// Records the missing facts. If another process has changed the run since `missing` was computed, records
// nothing and returns false.
bool append_missing(Record& record, const RunId& run, const MissingFacts& missing) {
  const auto ends =
      are_all_over(missing.restored, missing.facts) ? Record::RunEnds::with_last_trial : Record::RunEnds::no;
  return record.append_unwatched(run, missing.facts, missing.stamp, ends, missing.started);
}

}  // namespace

bool is_behind(const TrialEntry& entry, const Observation* seen) {
  if (!may_have_attempt(entry.state)) return false;
  if (seen == nullptr) return is_alive(entry.state);
  if (seen->key.attempt != entry.attempt) return seen->key.attempt > entry.attempt;
  return seen->phase == Phase::ended || (seen->phase == Phase::running && entry.state != TrialState::running);
}

void reconcile_run(Session& session, Record& record, const RunId& run, Outlook outlook,
                   const TrialNames& stopped, std::optional<std::vector<Observation>> listed) {
  const auto missing = find_missing(session, record, run, outlook, stopped, std::move(listed));
  if (missing) (void)append_missing(record, run, *missing);
}

Reconciliation try_reconcile(Session& session, Record& record, const RunId& run) {
  Reconciliation result;
  try {
    const auto missing = find_missing(session, record, run, Outlook::resumable, {}, std::nullopt);
    if (!missing) return result;
    for (const Fact& fact : missing->facts)
      result.unrecorded[missing->loaded.run.experiment.trials[fact.trial].name].push_back(fact);
    result.was_overtaken = !append_missing(record, run, *missing);
    result.unrecorded.clear();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) throw;
    result.error = error;
  }
  return result;
}

void note_unreconciled(Session& session, const Error& error) {
  session.progress().note(
      fmt::format("the record does not show yet which trials have ended: {}", error.what()));
}

UnrecordedFacts reconcile_or_note(Session& session, Record& record, const RunId& run) {
  Reconciliation result = try_reconcile(session, record, run);
  if (result.error) note_unreconciled(session, *result.error);
  return std::move(result.unrecorded);
}

void reconcile_runs_or_note(Session& session, const Invocation& invocation,
                            const std::map<RunId, TrialNames>& stopped) {
  const Caller caller = caller_for(invocation);
  if (!Record::exists(state_folder(caller))) return;
  try {
    Record record(state_folder(caller));
    for (const auto& [run, names] : stopped)
      for (const RunEntry& entry : record.runs({.id = run}, 1))
        if (!entry.ended_at && !owner_pid(run, caller))
          reconcile_run(session, record, run, Outlook::resumable, names);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) throw;
    note_unreconciled(session, error);
  }
}

}  // namespace combu
