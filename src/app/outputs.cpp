#include "app/outputs.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "combu/inputs.hpp"
#include "combu/run.hpp"
#include "combu/schedule.hpp"
#include "combu/text.hpp"

namespace combu {
namespace {

// Returns the attempts of a run whose outputs still have to be collected, by the index of their trial.
std::map<TrialIndex, Key> collecting_attempts(Record& record, const RunId& run,
                                              const std::vector<RestoredTrial>& restored) {
  std::map<TrialIndex, Key> attempts;
  const bool any = std::ranges::any_of(
      restored, [](const RestoredTrial& one) { return one.state == TrialState::collecting; });
  if (!any) return attempts;
  const std::vector<TrialEntry> trials = record.trials(run);
  for (TrialIndex i = 0; i < restored.size(); ++i)
    if (restored[i].state == TrialState::collecting)
      attempts.emplace(i, Key{.run = run, .trial = trials[i].name, .attempt = restored[i].attempt});
  return attempts;
}

// Calls `body`. Returns the text of the error that `body` throws; empty if `body` throws no error. Does not
// catch Error(cancelled).
template <class Body>
std::string failure_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) throw;
    return error.what();
  }
  return {};
}

// Source and destination of collected outputs.
struct Route {
  Engine& engine;
  OutputStore& output_store;
};

// Collects the outputs of one attempt and records the result. Returns why the outputs could not be collected.
// Returns an empty text if the outputs were collected, or if the attempt failed because of its outputs, such
// as a missing file.
std::string collect_one(Session& session, Record& record, const Loaded& loaded, const Route& route,
                        LastCollection& last, const CollectCommand& command) {
  const auto [collected, collection] =
      collect_trial_outputs(route.engine, loaded.run, command, route.output_store, session.stop());
  if (session.stop().stop_requested()) throw Error(ErrorKind::cancelled, "", "cancelled");
  std::vector<CollectedOutputs> collected_outputs;
  if (collection) {
    collected_outputs.push_back(
        {.trial = command.trial, .attempt = command.attempt, .collection = *collection});
    for (const std::string& note : notes_of(loaded.run.experiment.trials[command.trial].name, *collection))
      session.progress().note(note);
  }
  record.append(loaded.run.id, last.facts_of(collected, real_clock().now()), {}, collected_outputs);
  return collected.by_attempt ? std::string() : collected.fault;
}

}  // namespace

std::unique_ptr<OutputStore> open_results(const Loaded& loaded) {
  const std::string results = results_folder(loaded.run.experiment, loaded.run.id);
  if (!results.starts_with('/')) return open_s3(results, loaded.caller);
  const bool for_another = geteuid() == 0 && loaded.caller.uid != 0;
  return open_folder(
      resolved_results_folder(loaded.run.experiment, loaded.run.id, loaded.run.host_paths),
      for_another ? std::optional(Owner{.uid = loaded.caller.uid, .gid = loaded.caller.gid}) : std::nullopt);
}

OutputsAt outputs_at(const std::string& results, const TrialEntry& trial) {
  OutputsAt at{.place = fmt::format("{}/{}", results, trial.name),
               .so_far = fmt::format("{}/{}", results, partial_place(trial.name))};
  const bool is_folder = results.starts_with('/');
  const auto is_there = [](const std::string& place) {
    std::error_code unreadable;
    return std::filesystem::exists(fmt::format("{}/{}", place, k_manifest_name), unreadable);
  };
  const bool is_collected = is_folder ? is_there(at.place) : has_succeeded(trial.state) || trial.collection;
  // If the trial has not ended, outputs at this location belong to an earlier attempt.
  if (!is_over(trial.state) || !is_collected) at.place.clear();
  if (!is_folder || !is_there(at.so_far)) at.so_far.clear();
  return at;
}

std::function<std::string(const TrialEntry&)> output_places(Record& record, const RunId& run,
                                                            Progress& progress) {
  std::string results;
  std::set<std::string> with_outputs;
  try {
    const Loaded loaded = load(record, run);
    results = results_folder(loaded.run.experiment, loaded.run.id);
    for (const Trial& trial : loaded.run.experiment.trials)
      if (!trial.outputs.empty()) with_outputs.insert(trial.name);
  } catch (const Error& error) {
    progress.note(fmt::format("the locations of outputs are unknown: {}", error.what()));
  }
  return [results = std::move(results), with_outputs = std::move(with_outputs)](const TrialEntry& trial) {
    if (!with_outputs.contains(trial.name)) return std::string();
    const OutputsAt at = outputs_at(results, trial);
    return at.place.empty() ? at.so_far : at.place;
  };
}

std::vector<Error> check_results(const Loaded& loaded, const std::stop_token& stop) {
  const Experiment& experiment = loaded.run.experiment;
  const bool any_outputs =
      std::ranges::any_of(experiment.trials, [](const Trial& trial) { return !trial.outputs.empty(); });
  if (!any_outputs || experiment.collect.to.starts_with('/')) return {};
  try {
    check_s3(results_folder(loaded.run.experiment, loaded.run.id), loaded.caller, stop);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) throw;
    return {Error(error.kind(), "collect.to", error.what())};
  }
  return {};
}

std::set<Key> collecting_attempts(Record& record, const RunId& run) {
  std::set<Key> keys;
  for (const auto& [trial, key] : collecting_attempts(record, run, record.restored_trials(run)))
    keys.insert(key);
  return keys;
}

Uncollected collect_remaining(Session& session, Record& record, const RunId& run,
                              const std::function<void(const Key&)>& collected) {
  std::vector<RestoredTrial> restored = record.restored_trials(run);
  std::map<TrialIndex, Key> pending = collecting_attempts(record, run, restored);
  Uncollected failed;
  if (pending.empty()) return failed;
  session.progress().note(
      fmt::format("collecting the outputs of {} of run {}", number_of(pending.size(), "trial"), run.text()));
  const auto fail = [&](const Key& key, const std::string& why) {
    failed.emplace(key, fmt::format("the outputs cannot be collected: {}", why));
  };
  const std::string why = failure_of([&] {
    const Loaded loaded = load(record, run);
    const auto output_store = open_results(loaded);
    const auto engine = session.patient_engine();
    LastCollection last(run, loaded.run.experiment, loaded.plan, std::move(restored), real_clock().now());
    for (const CollectCommand& command : last.commands()) {
      const auto at = pending.find(command.trial);
      if (at == pending.end()) continue;
      std::string fault;
      const std::string unrecorded = failure_of([&] {
        fault = collect_one(session, record, loaded, {*engine, *output_store}, last, command);
      });
      const Key key = at->second;
      pending.erase(at);
      if (!fault.empty() || !unrecorded.empty())
        fail(key, fault.empty() ? unrecorded : fault);
      else if (collected)
        collected(key);
    }
  });
  for (const auto& [trial, key] : pending) fail(key, why);
  return failed;
}

}  // namespace combu
