#include "cli/selection.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "cli/identity.hpp"
#include "cli/recorded.hpp"
#include "cli/run_lock.hpp"

namespace combu {
namespace {

std::set<std::string> experiments_of(const std::vector<Sighting>& sightings) {
  std::set<std::string> names;
  for (const Sighting& sighting : sightings) names.insert(sighting.experiment);
  return names;
}

// A trial as it stands in the last run that is meant.
struct OnRecord {
  RunId run;
  TrialEntry trial;
};

// nullopt: there is none, or the record cannot be read.
std::optional<OnRecord> on_record(const std::string& trial, const Invocation& invocation,
                                  const SelectionOptions& options) {
  const std::string folder = state_folder(caller_for(invocation));
  if (!Record::exists(folder)) return std::nullopt;
  RunFilter filter{.experiment = options.experiment};
  if (!options.run.empty()) filter.id = RunId(options.run);
  if (!filter.id) filter.simulated = means_simulated(invocation);
  if (options.experiment.empty() && !invocation.file.empty()) filter.file = identity_of(invocation.file);
  try {
    Record record(folder, Record::Use::reading);
    for (const RunEntry& run : record.runs(filter, 1))
      for (TrialEntry& entry : record.trials(run.id, trial))
        return OnRecord{.run = run.id, .trial = std::move(entry)};
  } catch (const Error&) {
    return std::nullopt;
  }
  return std::nullopt;
}

Error unknown_trial(const std::string& trial, const std::vector<Sighting>& sightings,
                    const Invocation& invocation) {
  std::vector<std::string_view> known;
  known.reserve(sightings.size());
  for (const Sighting& sighting : sightings) known.emplace_back(sighting.key.trial);
  const auto near = nearest(trial, known);
  return {
      ErrorKind::not_found, trial,
      near ? fmt::format(
                 "there is no container of it: it was not started or has been removed, or {} is meant", *near)
           : fmt::format("there is no container of it, it was not started or has been removed; `combu {}ps` "
                         "shows those there are",
                         invocation.file.empty() ? "" : fmt::format("-f {} ", invocation.file))};
}

}  // namespace

Error of_several_experiments(const std::string& trial, const std::set<std::string>& experiments) {
  return {ErrorKind::invalid, trial,
          fmt::format("is of several experiments ({}); --experiment NAME says which is meant",
                      fmt::join(experiments, ", "))};
}

void expect_run(const Invocation& invocation, const SelectionOptions& options) {
  if (options.run.empty()) return;
  const RunId run(options.run);
  const std::string folder = state_folder(caller_for(invocation));
  if (Record::exists(folder) && !Record(folder, Record::Use::reading).runs({.id = run}, 1).empty()) return;
  throw Error(ErrorKind::not_found, "run " + run.text(),
              "nothing of it is on record or on this engine; `combu ps` shows the runs there are");
}

std::optional<Error> without_container(const std::string& trial, const Invocation& invocation,
                                       const SelectionOptions& options) {
  const auto found = on_record(trial, invocation, options);
  if (!found) return std::nullopt;
  const auto& [run, entry] = *found;
  if (!is_over(entry.state))
    return Error(ErrorKind::not_found, trial,
                 fmt::format("there is no container of it yet: it is {} in run {}; `combu why {} --run "
                             "{}` says for what",
                             to_string(entry.state), run.text(), shell_word(trial), run.text()));
  return Error(
      ErrorKind::not_found, trial,
      fmt::format("there is no container of it: it is {} in run {}{}", to_string(entry.state), run.text(),
                  entry.ran_at ? ", and its container has been removed" : ": " + entry.reason));
}

bool was_skipped(const std::string& trial, const Invocation& invocation, const SelectionOptions& options) {
  const auto found = on_record(trial, invocation, options);
  return found && found->trial.state == TrialState::skipped;
}

void add_selection(CliCommand command, SelectionOptions& options) {
  command.add_option("--experiment", options.experiment, "The experiment of this name, instead of -f FILE's")
      .type_name("NAME");
  command.add_option("--run", options.run, "Only this run of it").type_name("ID");
}

Invocation for_selection(const Invocation& invocation, const SelectionOptions& options) {
  return options.experiment.empty() && options.trials.empty() ? with_default_file(invocation) : invocation;
}

Selector selector_of_file(const Invocation& invocation, const SelectionOptions& options) {
  Selector selector;
  if (!options.run.empty()) selector.run = RunId(options.run);
  selector.file = identity_of(invocation.file);
  return selector;
}

std::vector<Selector> selectors_of(Session& session, const Invocation& invocation,
                                   const SelectionOptions& options) {
  Selector base;
  if (!options.run.empty()) base.run = RunId(options.run);
  base.experiment = options.experiment;
  if (!options.experiment.empty() || invocation.file.empty()) return {base};

  const Selector of_file = selector_of_file(invocation, options);
  std::vector<Selector> selectors;
  for (const std::string& name : experiments_of(session.engine().list(of_file, Look::once, session.stop()))) {
    selectors.push_back(base);
    selectors.back().experiment = name;
  }
  if (selectors.empty()) selectors.push_back(of_file);
  return selectors;
}

std::vector<Sighting> list_all(Session& session, const std::vector<Selector>& selectors, Look look) {
  std::vector<Sighting> all;
  for (const Selector& selector : selectors) {
    std::vector<Sighting> some = session.engine().list(selector, look, session.stop());
    std::ranges::move(some, std::back_inserter(all));
  }
  return all;
}

std::set<RunId> runs_of(const std::vector<Sighting>& attempts) {
  std::set<RunId> runs;
  for (const Sighting& seen : attempts) runs.insert(seen.key.run);
  return runs;
}

std::string others_text(Session& session, const Invocation& invocation, const SelectionOptions& options) {
  SelectionOptions any_run = options;
  any_run.run.clear();
  if (!options.run.empty()) {
    std::set<std::string> runs;
    for (const Sighting& sighting : list_all(session, selectors_of(session, invocation, any_run), Look::once))
      runs.insert(sighting.key.run.text());
    if (!runs.empty()) return fmt::format("runs of it: {}", fmt::join(runs, ", "));
  }
  constexpr std::size_t k_shown = 5;
  std::map<std::string, std::size_t> experiments;
  for (const Sighting& sighting : session.engine().list({}, Look::once, session.stop())) {
    const bool is_meant = sighting.experiment == options.experiment ||
                          (!invocation.file.empty() && sighting.file == identity_of(invocation.file));
    if (!is_meant) ++experiments[sighting.experiment];
  }
  std::vector<std::string> shown;
  for (const auto& [name, count] : experiments) {
    if (shown.size() == k_shown) {
      shown.push_back(fmt::format("{} more", experiments.size() - k_shown));
      break;
    }
    shown.push_back(fmt::format("{} ({} container{})", name, count, count == 1 ? "" : "s"));
  }
  if (shown.empty()) return {};
  return fmt::format("other experiments here: {}; --experiment NAME means one of them",
                     fmt::join(shown, ", "));
}

std::string with_others(const std::string& text, Session& session, const Invocation& invocation,
                        const SelectionOptions& options) {
  const std::string others = others_text(session, invocation, options);
  return others.empty() ? text : fmt::format("{}; {}", text, others);
}

std::vector<Sighting> chosen_attempts(Session& session, const Invocation& invocation,
                                      const SelectionOptions& options) {
  const bool anywhere = invocation.file.empty() && options.experiment.empty();
  if (anywhere && options.trials.empty())
    throw Error(ErrorKind::invalid, "", "which experiment? -f FILE or --experiment NAME says it");
  std::vector<Sighting> all = list_all(session, selectors_of(session, invocation, options), Look::once);
  if (options.trials.empty()) return all;

  const std::set<std::string> wanted(options.trials.begin(), options.trials.end());
  std::set<std::string> missing = wanted;
  std::vector<Sighting> chosen;
  for (const Sighting& sighting : all) {
    if (!wanted.contains(sighting.key.trial)) continue;
    missing.erase(sighting.key.trial);
    chosen.push_back(sighting);
  }
  if (!missing.empty())
    if (const auto known = without_container(*missing.begin(), invocation, options)) throw Error(*known);
  if (all.empty()) {
    expect_run(invocation, options);
    throw Error(ErrorKind::not_found, *wanted.begin(),
                with_others("nothing of the experiment is on this engine", session, invocation, options));
  }
  if (!missing.empty()) throw unknown_trial(*missing.begin(), all, invocation);
  const std::set<std::string> experiments = experiments_of(chosen);
  if (anywhere && experiments.size() > 1) throw of_several_experiments(*wanted.begin(), experiments);
  return chosen;
}

}  // namespace combu
