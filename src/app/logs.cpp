#include "app/logs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/log_following.hpp"
#include "app/log_reading.hpp"
#include "app/recorded_logs.hpp"
#include "combu/session.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

// Returns the trial's attempt that the options choose. Throws Error(not_found) if the trial has no log.
Key meant_attempt(Session& session, const Invocation& invocation, const LogsOptions& options,
                  const std::string& trial) {
  SelectionOptions selection = options.selection;
  selection.trials = {trial};
  RecordedLogs kept(invocation, selection, trial);
  const auto key_on_record = [&]() -> std::optional<Key> {
    if (kept.trials().empty()) return std::nullopt;
    Key key = kept.key_of(kept.trials().front());
    if (options.attempt > 0) key.attempt = options.attempt;
    return key;
  };
  std::optional<Key> on_record = key_on_record();
  const auto log_on_record = [&] {
    return on_record ? kept.log(on_record->trial, on_record->attempt) : std::nullopt;
  };
  const auto log = log_on_record();
  if (log && log->complete) return *on_record;
  if (options.attempt == 0 && on_record && kept.is_whole(kept.trials().front()))
    if (const auto none = without_container(trial, invocation, selection)) throw Error(*none);
  try {
    const auto attempts = chosen_attempts(session, invocation, selection);
    Key key = std::ranges::max_element(attempts, is_older)->key;
    if (options.attempt > 0) key.attempt = options.attempt;
    return key;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::not_found) throw;
    kept.expect_readable();
    if (invocation.file.empty() && selection.experiment.empty() && selection.run.empty()) {
      kept.look_everywhere(trial);
      on_record = key_on_record();
    }
    if (log_on_record()) return *on_record;
    kept.expect_stored(trial);
    throw;
  }
}

// Waits until the trial's next attempt has begun. Returns false if the trial will have no further attempt.
bool await_next_attempt(const Key& key, const Caller& caller, const std::stop_token& stop) {
  const std::string folder = state_folder(caller);
  while (Record::exists(folder)) {
    // Check for the owner before reading the record. If the owner ends between these two steps, the record
    // already has all facts of the run.
    const bool goes_on = owner_pid(key.run, caller).has_value();
    const auto entries = Record(folder, Record::Use::reading).trials(key.run, key.trial);
    if (entries.empty()) return false;
    const TrialEntry& entry = entries.front();
    const bool has_run = entry.state == TrialState::running || entry.state == TrialState::retrying ||
                         entry.state == TrialState::collecting || (is_over(entry.state) && entry.ran_at);
    if (entry.attempt > key.attempt + 1 || (entry.attempt == key.attempt + 1 && has_run)) return true;
    if (is_over(entry.state) || !goes_on) return false;
    real_clock().wait(k_follow_pause, stop);
    if (stop.stop_requested()) throw Error(ErrorKind::cancelled, key.trial, "stopped");
  }
  return false;
}

Result logs_of_one(Session& session, const Invocation& invocation, const LogsOptions& options,
                   const std::string& trial) {
  const Caller caller = caller_for(invocation);
  LogOptions wanted = options.wanted;
  const std::unique_ptr<LogSink> sink = options.open_sink(trial, LogsOf::one_trial);
  Key key = meant_attempt(session, invocation, options, trial);
  bool is_read = read_attempt(session, caller, key, wanted, *sink);
  if (!options.wanted.follow || options.attempt > 0 || key.attempt == k_adopted) return Result::succeeded;
  wanted.tail.reset();  // show the whole log of each later attempt
  while (is_read && await_next_attempt(key, caller, session.stop())) {
    ++key.attempt;
    is_read = sink->note(fmt::format("attempt {} begins", key.attempt)) &&
              read_attempt(session, caller, key, wanted, *sink);
  }
  return Result::succeeded;
}

// Returns the attempts that have a log. Attempts of recorded trials come first, in the experiment's order.
// Then come the attempts that are only on the engine, the oldest first.
std::vector<Key> attempts_in_order(RecordedLogs& kept, std::vector<Observation> listed) {
  std::erase_if(listed, [](const Observation& seen) { return !has_run(seen.phase); });
  std::ranges::sort(listed, is_older);
  std::map<std::string_view, std::vector<const Observation*>> by_trial;
  for (const Observation& seen : listed) by_trial[seen.key.trial].push_back(&seen);
  std::vector<Key> keys;
  std::set<Key> known;
  const auto add = [&](const Key& key) {
    if (known.insert(key).second) keys.push_back(key);
  };
  for (const TrialEntry& entry : kept.trials()) {
    const Key key = kept.key_of(entry);
    if (kept.log(key.trial, key.attempt)) add(key);
    const auto seen = by_trial.find(entry.name);
    if (seen == by_trial.end()) continue;
    for (const Observation* one : seen->second) add(one->key);
  }
  for (const Observation& seen : listed) add(seen.key);
  return keys;
}

// Passes one log after the other to its sink. If the engine is unreachable, passes only the completely stored
// logs, and then throws Error.
void read_all(Session& session, const Invocation& invocation, const SelectionOptions& selection,
              RecordedLogs& kept, const LogsOptions& options, bool is_whole) {
  std::vector<Observation> listed;
  std::optional<Error> away;
  try {
    if (!is_whole)
      listed = list_all(session, selectors_of(session, invocation, selection), ListDetail::basic);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) throw;
    away = error;
  }
  std::erase_if(listed,
                [&](const Observation& seen) { return !is_chosen(selection.trials, seen.key.trial); });
  if (!away && !is_whole && listed.empty()) kept.expect_readable();
  if (!away && listed.empty() && !kept.run()) expect_run(invocation, selection);
  const Caller caller = caller_for(invocation);
  for (const Key& key : attempts_in_order(kept, std::move(listed))) {
    const auto sink = options.open_sink(key.trial, LogsOf::several_trials);
    const auto log = kept.log(key.trial, key.attempt);
    const bool is_kept = log && log->complete && key.run == kept.run();
    if (!is_kept && away) continue;
    const bool is_read = is_kept ? kept.read(key, *log, options.wanted, *sink)
                                 : read_attempt(session, caller, key, options.wanted, *sink);
    if (!is_read) return;
  }
  if (away) throw Error(*away);
}

void logs_of_several(Session& session, const Invocation& invocation, const LogsOptions& options,
                     RecordedLogs& kept) {
  SelectionOptions selection = options.selection;
  if (kept.run()) selection.run = kept.run()->text();
  const bool is_whole = kept.are_whole();
  const Caller caller = caller_for(invocation);
  // While the run has an owner, a trial whose attempt has ended may be retried and write more output.
  if (!options.wanted.follow || (is_whole && !owner_pid(*kept.run(), caller)))
    return read_all(session, invocation, selection, kept, options, is_whole);
  std::set<Key> read;
  for (const TrialEntry& entry : kept.trials()) {
    const Key key = kept.key_of(entry);
    const auto log = kept.log(key.trial, key.attempt);
    if (!log || !log->complete) continue;
    const auto sink = options.open_sink(key.trial, LogsOf::several_trials);
    if (!kept.read(key, *log, options.wanted, *sink)) return;
    read.insert(key);
  }
  follow_logs(session, invocation, selection, options.wanted, options.open_sink, read);
}

// Calls logs_of_one() if the names match one trial, else logs_of_several(). At the end, throws
// Error(not_found) if a name matches no trial.
Result logs_of_named(Session& session, const Invocation& invocation, const LogsOptions& options) {
  const std::vector<std::string>& names = options.selection.trials;
  RecordedLogs kept(invocation, options.selection, {});
  std::vector<std::string> unmatched = kept.unmatched();
  std::set<std::string> trials;
  for (const TrialEntry& entry : kept.trials()) trials.insert(entry.name);
  if (!kept.run()) {
    unmatched = names;
    for (const Observation& seen :
         list_all(session, selectors_of(session, invocation, options.selection), ListDetail::basic)) {
      drop_matching(unmatched, seen.key.trial);
      if (is_chosen(names, seen.key.trial)) trials.insert(seen.key.trial);
    }
  }
  if (trials.empty()) kept.expect_readable();
  if (trials.empty() && !kept.run()) expect_run(invocation, options.selection);
  if (trials.size() == 1) (void)logs_of_one(session, invocation, options, *trials.begin());
  if (trials.size() > 1) logs_of_several(session, invocation, options, kept);
  expect_all_matched(unmatched, kept.run() ? "run " + kept.run()->text() : "the containers on this engine");
  return Result::succeeded;
}

bool names_one(const SelectionOptions& selection) {
  return selection.trials.size() == 1 && !is_pattern(selection.trials.front());
}

}  // namespace

Invocation for_logs(const Invocation& invocation, const SelectionOptions& selection) {
  const bool is_of_file = !names_one(selection) && selection.experiment.empty() && selection.run.empty();
  return is_of_file ? with_default_file(invocation) : invocation;
}

Result logs(Session& session, const Invocation& invocation, const LogsOptions& options) {
  const SelectionOptions& selection = options.selection;
  if (names_one(selection)) return logs_of_one(session, invocation, options, selection.trials.front());
  if (options.attempt > 0) throw Error(ErrorKind::invalid, "--attempt", "needs the name of one trial");
  if (invocation.file.empty() && selection.experiment.empty() && selection.run.empty())
    throw Error(ErrorKind::invalid, "logs",
                "no trials are chosen; give the name of a trial, -f FILE or --run ID");
  if (!selection.trials.empty()) return logs_of_named(session, invocation, options);
  RecordedLogs kept(invocation, selection, {});
  logs_of_several(session, invocation, options, kept);
  return Result::succeeded;
}

}  // namespace combu
