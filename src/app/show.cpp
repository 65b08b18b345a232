#include "app/show.hpp"

#include <fmt/format.h>

#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "app/load.hpp"
#include "app/outputs.hpp"
#include "app/reproduction.hpp"
#include "app/run_results.hpp"
#include "app/run_telemetry.hpp"
#include "combu/inputs.hpp"
#include "combu/session.hpp"
#include "combu/telemetry.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

ShownTrial look_up(Record& record, const RunEntry& run, const Loaded& loaded, TrialIndex trial) {
  const std::string& name = loaded.run.experiment.trials[trial].name;
  ShownTrial shown{.run = run,
                   .ran_in = run,
                   .trial = loaded.run.experiment.trials[trial],
                   .entry = record.trials(run.id, name).at(0),
                   .attempts = record.attempts(run.id, name),
                   .known = record.known(run.id, name),
                   .inputs = record.inputs(run.id, name),
                   .metrics = {},
                   .log = {},
                   .outputs = {},
                   .partial_outputs = {}};
  if (shown.entry.state == TrialState::skipped && shown.is_equal()) {
    const KnownEntry& known = *shown.known;
    shown.ran_in.reset();
    if (!record.runs({.id = known.equal_run}, 1).empty()) {
      shown.ran_in = record.run(known.equal_run);
      shown.attempts = record.attempts(known.equal_run, known.equal_trial);
    }
  }
  const std::string results =
      run.results.empty() ? results_folder(loaded.run.experiment, loaded.run.id) : run.results;
  if (shown.trial.outputs.empty()) return shown;
  OutputsAt outputs = outputs_at(results, shown.entry);
  shown.outputs = std::move(outputs.place);
  shown.partial_outputs = std::move(outputs.so_far);
  return shown;
}

void look_up_telemetry(std::vector<ShownTrial>& all, const std::string& folder, const RunId& run) {
  if (!Telemetry::exists(folder, run)) return;
  Telemetry telemetry(folder, run, Telemetry::Use::reading);
  std::map<std::string_view, ShownTrial*> by_name;
  for (ShownTrial& shown : all) {
    by_name.emplace(shown.trial.name, &shown);
    shown.log = telemetry.log(shown.trial.name, telemetry_attempt(shown.entry));
  }
  telemetry.metrics([&](const MetricSummary& one) {
    const auto found = by_name.find(one.trial);
    if (found == by_name.end()) return;
    const bool is_skipped = found->second->entry.state == TrialState::skipped;
    if (is_skipped || one.attempt != k_adopted) found->second->metrics.push_back(one);
  });
}

// Returns the value of --engine that chooses the run's engine; empty if the run's engine is the default
// engine.
std::string engine_of(const RunEntry& run, const Invocation& invocation, const ShowOptions& options) {
  if (!invocation.engine.empty()) return on_its_engine(invocation, run).engine;
  try {
    return options.default_engine() == run.engine.address ? "" : run.engine.address;
  } catch (const Error&) {
    return run.engine.address;
  }
}

// The trials of a run that names and patterns choose, and the names and patterns that match no trial.
struct Meant {
  std::vector<TrialEntry> trials;  // in the experiment's order
  std::vector<std::string> unmatched;
};

Meant meant_trials(Record& record, const RunId& run, const std::vector<std::string>& names) {
  const bool is_one = names.size() == 1 && !is_pattern(names.front());
  Meant meant{.trials = record.trials(run, is_one ? names.front() : ""), .unmatched = names};
  std::erase_if(meant.trials, [&](const TrialEntry& entry) {
    drop_matching(meant.unmatched, entry.name);
    return !is_chosen(names, entry.name);
  });
  return meant;
}

// Returns the number of the version of the file that all `trials` use. Throws Error(invalid) if the trials
// use several versions of the file.
int version_of(const std::vector<TrialEntry>& trials) {
  for (const TrialEntry& entry : trials)
    if (entry.revision != trials.front().revision)
      throw Error(
          ErrorKind::invalid, "TRIAL",
          fmt::format(
              "the trials must be of one version of the file: {} is of version {}, and {} of version {}",
              trials.front().name, trials.front().revision, entry.name, entry.revision));
  return trials.front().revision;
}

void read_trials_of_run(Record& record, const RunEntry& run, const Invocation& invocation,
                        const std::vector<std::string>& names, const ShowOptions& options) {
  const Loaded loaded = load(record, run.id);
  std::unordered_map<std::string_view, TrialIndex> places;
  const std::vector<Trial>& trials = loaded.run.experiment.trials;
  for (TrialIndex i = 0; i < trials.size(); ++i) places.emplace(trials[i].name, i);
  std::vector<ShownTrial> all;
  all.reserve(names.size());
  for (const std::string& name : names) all.push_back(look_up(record, run, loaded, places.at(name)));
  look_up_telemetry(all, state_folder(caller_for(invocation)), run.id);
  for (const ShownTrial& shown : all) options.on_trial(shown);
}

// `trials` must not be empty.
void show_trials(Record& record, const RunEntry& run, const Invocation& invocation,
                 const std::vector<TrialEntry>& trials, const ShowOptions& options,
                 const OpenSession& open_session) {
  std::vector<std::string> names;
  std::vector<std::string> alive;
  for (const TrialEntry& entry : trials) {
    names.push_back(entry.name);
    if (is_alive(entry.state)) alive.push_back(entry.name);
  }
  if (options.what == ShowWhat::evaluated) return options.on_text(evaluated_again(run, version_of(trials)));
  if (options.what == ShowWhat::reproduction) {
    (void)version_of(trials);
    return options.on_text(reproduction(run, names, engine_of(run, invocation, options)));
  }
  if (!alive.empty()) refresh_from_engine(invocation, open_session, record, run, alive);
  read_trials_of_run(record, run, invocation, names, options);
}

}  // namespace

void show(const Invocation& invocation, const ShowOptions& options, const OpenSession& open_session) {
  Record record = open_record(invocation, Record::Use::reading);
  const RunEntry run = record.run(find_run(record, invocation, options.run).id);
  if (options.what == ShowWhat::source) return options.on_file(run.text.source);
  if (options.what == ShowWhat::diff) return options.on_file(run.working_tree.diff);
  if (options.trials.empty() && options.what == ShowWhat::evaluated)
    return options.on_text(evaluated_again(run, 0));
  if (options.trials.empty())
    throw Error(ErrorKind::invalid, "TRIAL", "no trial is named; `combu ps` lists the trials");
  const auto [trials, unmatched] = meant_trials(record, run.id, options.trials);
  // Call find_trial() for its error, which suggests a similar name.
  if (trials.empty() && unmatched.size() == 1 && !is_pattern(unmatched.front()))
    (void)find_trial(load(record, run.id).run.experiment, unmatched.front());
  if (!trials.empty()) show_trials(record, run, invocation, trials, options, open_session);
  expect_all_matched(unmatched, "run " + run.id.text());
}

}  // namespace combu
