#include "app/kill.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "app/outputs.hpp"
#include "app/reconcile.hpp"
#include "app/record_kill.hpp"
#include "app/run_owner.hpp"
#include "app/run_telemetry.hpp"
#include "combu/record.hpp"
#include "combu/session.hpp"
#include "combu/text.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

constexpr int k_repeats_max = 5;
constexpr std::size_t k_uncollected_listed_max = 20;
constexpr std::size_t k_stops_in_flight_max = 8;

// Appends each error in `more` to `errors`, unless `errors` already has an error with the same
// Error::subject(): two selectors may report the same error.
void append_new(std::vector<Error>& errors, const std::vector<Error>& more) {
  for (const Error& error : more) {
    const bool known =
        std::ranges::any_of(errors, [&](const Error& other) { return other.subject() == error.subject(); });
    if (!known) errors.push_back(error);
  }
}

void add(Released& sum, const Released& more) {
  sum.attempts += more.attempts;
  sum.networks += more.networks;
  // The errors of the latest removal replace earlier errors, which may be out of date.
  sum.left = more.left;
  sum.in_use = more.in_use;
}

// True if containers other than `kept` exist after the removal, which means that a run is still starting
// trials.
bool starts_go_on(Session& session, const std::vector<Selector>& selectors, const Released& released,
                  const std::set<Key>& kept) {
  if (released.attempts == 0 || !released.left.empty()) return false;
  return std::ranges::any_of(list_all(session, selectors, ListDetail::basic),
                             [&](const Observation& seen) { return !kept.contains(seen.key); });
}

// A function that gets a selector and the attempts that the selector matches. Returns the attempts whose
// containers must stay.
using Found = std::function<std::set<Key>(const Selector&, const std::vector<Observation>&)>;

Released release_all(Session& session, const std::vector<Selector>& selectors, const Found& found) {
  Released sum;
  for (const Selector& selector : selectors) {
    const ReleaseCallbacks callbacks{
        .found = [&](const std::vector<Observation>& attempts) { return found(selector, attempts); },
        .removed = [&](std::size_t done,
                       std::size_t total) { session.progress().counted("removed", done, total); }};
    Released released = session.engine().release(selector, callbacks, session.stop());
    sum.attempts += released.attempts;
    sum.networks += released.networks;
    sum.experiments.insert(released.experiments.begin(), released.experiments.end());
    append_new(sum.left, released.left);
    append_new(sum.in_use, released.in_use);
  }
  return sum;
}

// Interrupts the owners of the selected runs before the removal, so that no container starts during the
// removal. Otherwise an owner could start a removed trial again, and an engine could refuse to remove a
// network because it counts the network's containers wrongly while others start.
void interrupt_all(Session& session, const Invocation& invocation, const std::vector<Selector>& selectors) {
  const Caller caller = caller_for(invocation);
  for (const Selector& selector : selectors) interrupt_processes(session, selector, "combu kill", caller);
}

// Calls `body` for each selected run on this engine that is on record, has not ended and has no owner. If the
// record cannot be used, prints a note and returns: `kill` can still remove the containers that have no
// outputs or logs to collect.
void for_each_on_record(Session& session, const Invocation& invocation,
                        const std::vector<Selector>& selectors,
                        const std::function<void(Record&, const RunId&)>& body) {
  const Caller caller = caller_for(invocation);
  if (!Record::exists(state_folder(caller))) return;
  try {
    Record record(state_folder(caller));
    for (const Selector& selector : selectors) {
      const RunFilter filter{.id = selector.run,
                             .experiment = selector.experiment,
                             .file = selector.file,
                             .address = session.engine_address()};
      for (const RunEntry& entry : record.runs(filter, SIZE_MAX))
        if (!entry.ended_at && !owner_pid(entry.id, caller)) body(record, entry.id);
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) throw;
    session.progress().note(fmt::format("the record was not updated: {}", error.what()));
  }
}

struct Known {
  std::set<RunId> runs;  // runs that have been reconciled; their containers may be gone
  // runs for which combu could not record how their trials ended, each with the reason
  std::map<RunId, std::string> untold;
  std::set<Key> pending;  // attempts whose outputs are collected after all other containers have been removed
  Uncollected kept;
};

std::set<Key> keys_to_keep(const Known& known) {
  std::set<Key> keys = known.pending;
  for (const auto& [key, why] : known.kept) keys.insert(key);
  return keys;
}

std::vector<Observation> of_run(const std::vector<Observation>& attempts, const RunId& run) {
  std::vector<Observation> of;
  std::ranges::copy_if(attempts, std::back_inserter(of),
                       [&](const Observation& seen) { return seen.key.run == run; });
  return of;
}

// Reconciles the selected runs that `known.runs` does not contain yet, and returns these runs. Without this
// step, combu would record a trial as killed although the trial ended by itself while the run had no owner.
std::vector<RunId> reconcile_once(Session& session, const Invocation& invocation, const Selector& selector,
                                  const std::vector<Observation>& attempts, Known& known) {
  std::vector<RunId> looked_at;
  for_each_on_record(session, invocation, {selector}, [&](Record& record, const RunId& run) {
    if (!known.runs.insert(run).second) return;
    looked_at.push_back(run);
    try {
      reconcile_run(session, record, run, Outlook::ended, {}, of_run(attempts, run));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::cancelled) throw;
      known.untold.emplace(run, fmt::format("combu could not record how the trial ended: {}", error.what()));
      session.progress().note(
          fmt::format("combu could not record how the trials of run {} ended: {}", run.text(), error.what()));
    }
  });
  return looked_at;
}

// Adds to `known.kept` all attempts that can have outputs or logs, with the reason `why`.
void keep_all(Known& known, const std::vector<Observation>& attempts, const std::string& why) {
  for (const Observation& seen : attempts)
    if (has_run(seen.phase)) known.kept.try_emplace(seen.key, why);
}

// If the ends of the run's trials could not be recorded, adds the run's ended attempts to `known.kept`:
// collect_remaining() does not find such attempts.
void keep_unread(Record& record, const RunId& run, const std::vector<Observation>& attempts, Known& known) {
  const auto why = known.untold.find(run);
  if (why == known.untold.end()) return;
  std::set<std::string, std::less<>> over;
  for (const TrialEntry& trial : record.trials(run))
    if (is_over(trial.state)) over.insert(trial.name);
  std::vector<Observation> ended;
  std::ranges::copy_if(attempts, std::back_inserter(ended), [&](const Observation& seen) {
    return seen.phase == Phase::ended && !over.contains(seen.key.trial) && !known.pending.contains(seen.key);
  });
  keep_all(known, ended, why->second);
}

// Ingests the logs of `attempts`, except logs that are already stored. If this fails for an attempt, adds the
// attempt to `known.kept`. For each run in `runs`, adds the attempts whose outputs still have to be collected
// to `known.pending`.
void collect_logs(Session& session, const Invocation& invocation, const std::vector<RunId>& runs,
                  std::vector<Observation> attempts, Known& known) {
  std::erase_if(attempts, [&](const Observation& seen) { return known.kept.contains(seen.key); });
  const std::string folder = state_folder(caller_for(invocation));
  if (attempts.empty() || !Record::exists(folder)) return;
  const auto or_keep = [&](const std::vector<Observation>& all, const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::cancelled) throw;
      keep_all(known, all, fmt::format("the outputs and the log cannot be collected: {}", error.what()));
    }
  };
  or_keep(attempts, [&] {
    Record record(folder);
    std::set<RunId> all = runs_of(attempts);
    all.insert(runs.begin(), runs.end());
    for (const RunId& run : all) {
      const std::vector<Observation> its = of_run(attempts, run);
      or_keep(its, [&] {
        if (record.runs({.id = run}, 1).empty()) return;
        if (std::ranges::find(runs, run) != runs.end()) known.pending.merge(collecting_attempts(record, run));
        keep_unread(record, run, its, known);
        known.kept.merge(save_logs(session, record, folder, run, its, Containers::about_to_go));
      });
    }
  });
}

// Stops the containers that are not removed, since no container of the experiment may run after `kill`.
void stop_uncollected(Session& session, const Invocation& invocation,
                      const std::vector<Observation>& attempts, Known& known) {
  std::vector<const Observation*> running;
  for (const Observation& seen : attempts)
    if (seen.phase == Phase::running && known.kept.contains(seen.key)) running.push_back(&seen);
  std::map<RunId, TrialNames> stopped;
  std::mutex mutex;
  in_parallel(running.size(), k_stops_in_flight_max, [&](std::size_t i) {
    const Key& key = running[i]->key;
    std::string failure;
    try {
      session.engine().stop(key, Seconds(0), session.stop());  // without a grace period, as in a removal
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::refused && error.kind() != ErrorKind::conflict) throw;
      failure = error.what();
    }
    const std::scoped_lock lock(mutex);
    if (!failure.empty()) {
      session.progress().error(fmt::format("{}: cannot be stopped: {}", key.trial, failure));
    } else if (!known.untold.contains(key.run)) {
      stopped[key.run].push_back(key.trial);
    }
  });
  if (!stopped.empty()) reconcile_runs_or_note(session, invocation, stopped);
}

// If containers were selected by their file, returns a selector by name for each experiment of these
// containers: `kill` removes all containers of such an experiment, even those that were started from another
// file.
std::vector<Selector> more_selectors(const std::vector<Selector>& known, const Released& released) {
  std::vector<Selector> selectors;
  for (const std::string& experiment : released.experiments) {
    if (std::ranges::find(known, experiment, &Selector::experiment) == known.end())
      selectors.push_back({.experiment = experiment, .run = known.front().run});
  }
  return selectors;
}

// Removes the selected containers, repeatedly if new containers appear. Returns false if a run keeps starting
// trials.
bool release_until_none(Session& session, const Invocation& invocation, std::vector<Selector>& selectors,
                        Released& released, Known& known, bool discard) {
  interrupt_all(session, invocation, selectors);
  const Found collect_found = [&](const Selector& selector, const std::vector<Observation>& attempts) {
    const std::vector<RunId> runs = reconcile_once(session, invocation, selector, attempts, known);
    if (discard) return std::set<Key>();
    collect_logs(session, invocation, runs, attempts, known);
    stop_uncollected(session, invocation, attempts, known);
    return keys_to_keep(known);
  };
  for (int round = 0; round <= k_repeats_max; ++round) {
    const Released more = release_all(session, selectors, collect_found);
    add(released, more);
    const std::vector<Selector> found = more_selectors(selectors, more);
    interrupt_all(session, invocation, found);
    selectors.insert(selectors.end(), found.begin(), found.end());
    // If two selectors have containers in the same network, the network can be removed only after the
    // containers of both selectors.
    const bool look_again = selectors.size() > 1 && more.attempts > 0 && !more.in_use.empty();
    if (!look_again && found.empty() && !starts_go_on(session, selectors, more, keys_to_keep(known)))
      return true;
  }
  return false;
}

void put_on_record(Session& session, const Invocation& invocation, const Selector& selector,
                   const Released& released, const Known& known) {
  std::vector<Selector> selectors{selector};
  for (const std::string& experiment : released.experiments)
    selectors.push_back({.experiment = experiment, .run = selector.run});
  for_each_on_record(session, invocation, selectors, [&](Record& record, const RunId& run) {
    if (known.untold.contains(run)) return;
    std::vector<std::string> kept;
    for (const Key& key : keys_to_keep(known))
      if (key.run == run) kept.push_back(key.trial);
    record_kill(record, run, kept);
  });
}

// Collects the outputs of one attempt after the other, and removes each container after its collection. The
// collection may take long. If the user interrupts the collection, only containers with uncollected outputs
// stay.
void collect_pending(Session& session, const Invocation& invocation, Released& released, Known& known) {
  std::map<RunId, std::set<Key>> of_runs;
  for (const Key& key : std::exchange(known.pending, {})) of_runs[key.run].insert(key);
  Record record(state_folder(caller_for(invocation)));
  for (const auto& [run, keys] : of_runs) {
    const auto remove = [&](const Key& key) {
      if (known.kept.contains(key)) return;
      const Released more =
          session.engine().release({.run = key.run, .trials = {key.trial}}, {}, session.stop());
      released.attempts += more.attempts;
      append_new(released.left, more.left);
    };
    try {
      known.kept.merge(collect_remaining(session, record, run, remove));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::cancelled) throw;
      for (const Key& key : keys)
        known.kept.try_emplace(key, fmt::format("the outputs cannot be collected: {}", error.what()));
    }
  }
}

void report_uncollected(Session& session, const Uncollected& kept) {
  if (kept.empty()) return;
  std::size_t listed = 0;
  for (const auto& [key, why] : kept) {
    if (++listed > k_uncollected_listed_max) break;
    session.progress().error(fmt::format("not removed: {}: {}", key.trial, why));
  }
  if (kept.size() > k_uncollected_listed_max)
    session.progress().error(fmt::format("not removed: {} more", kept.size() - k_uncollected_listed_max));
  session.progress().note(
      fmt::format("{} stopped, but not removed: correct the cause and run `kill` again, or discard {} with "
                  "`kill --discard`",
                  number_of(kept.size(), "container") + (kept.size() == 1 ? " is" : " are"),
                  kept.size() == 1 ? "it" : "them"));
}

Result remove_all(Session& session, const Invocation& invocation, const KillOptions& options) {
  Selector selector = options.experiment.empty() ? selector_of_file(invocation, options) : Selector{};
  selector.experiment = options.experiment;
  if (!options.run.empty()) selector.run = RunId(options.run);
  Released released;
  Known known;
  std::vector<Selector> selectors{selector};
  const bool whole = release_until_none(session, invocation, selectors, released, known, options.discard);
  const auto record_removed = [&] {
    if (whole && released.left.empty()) put_on_record(session, invocation, selector, released, known);
  };
  session.progress().end();
  if (!known.pending.empty()) {
    record_removed();  // record the removal first, since the user may interrupt the collection
    const std::set<Key> pending = known.pending;
    collect_pending(session, invocation, released, known);
    const Found keep = [&](const Selector&, const std::vector<Observation>& attempts) {
      std::set<Key> keys = keys_to_keep(known);
      for (const Observation& seen : attempts)
        if (!pending.contains(seen.key)) keys.insert(seen.key);
      return keys;
    };
    add(released, release_all(session, selectors, keep));
    session.progress().end();
  }
  record_removed();
  for (const Error& error : released.left)
    session.progress().error(fmt::format("not removed: {}", error.what()));
  report_uncollected(session, known.kept);
  for (const Error& error : released.in_use)
    session.progress().note(
        fmt::format("network {} was not removed: {}; run `kill` again when nothing uses it", error.subject(),
                    error.message()));
  if (released.attempts == 0 && released.networks == 0 && released.left.empty() && released.in_use.empty() &&
      known.kept.empty()) {
    session.progress().note("nothing to remove");
    for (const std::string& hint : {others_text(session, invocation, options),
                                    note_of_other_engine(invocation, session.engine_address())})
      if (!hint.empty()) session.progress().note(hint);
    return Result::succeeded;
  }
  session.progress().note(fmt::format("removed {}, {}", number_of(released.attempts, "container"),
                                      number_of(released.networks, "network")));
  if (!whole)
    session.progress().error("a run is still starting trials; end its process, then run `kill` again");
  return whole && released.left.empty() && known.kept.empty() ? Result::succeeded : Result::failed;
}

}  // namespace

Result kill(Session& session, const Invocation& invocation, const KillOptions& options) {
  try {
    return remove_all(session, invocation, options);
  } catch (const Error& error) {
    session.progress().end();
    if (error.kind() == ErrorKind::cancelled)
      session.progress().note("interrupted; run the same command again to remove the rest");
    throw;
  }
}

}  // namespace combu
