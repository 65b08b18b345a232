#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "combu/session.hpp"
#include "combu/text.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

std::set<std::string> experiments_of(const std::vector<Observation>& observations) {
  std::set<std::string> names;
  for (const Observation& observation : observations) names.insert(observation.experiment);
  return names;
}

// The trials that a name or a pattern matches in the last run that the options choose.
struct OnRecord {
  RunId run;
  std::vector<TrialEntry> trials;  // at least one
};

// Returns nullopt if no trial matches `name`, or if the record cannot be read.
std::optional<OnRecord> on_record(const std::string& name, const Invocation& invocation,
                                  const SelectionOptions& options) {
  const std::string folder = state_folder(caller_for(invocation));
  if (!Record::exists(folder)) return std::nullopt;
  const RunFilter filter = filter_of(invocation, options);
  try {
    Record record(folder, Record::Use::reading);
    for (const RunEntry& run : record.runs(filter, 1)) {
      std::vector<TrialEntry> trials = record.trials(run.id, is_pattern(name) ? "" : name);
      std::erase_if(trials, [&](const TrialEntry& entry) { return !names_trial(name, entry.name); });
      if (!trials.empty()) return OnRecord{.run = run.id, .trials = std::move(trials)};
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  return std::nullopt;
}

Error unknown_trial(const std::string& name, const std::vector<Observation>& observations,
                    const Invocation& invocation) {
  const std::string ps = fmt::format("`combu {}ps` lists the trials",
                                     invocation.file.empty() ? "" : fmt::format("-f {} ", invocation.file));
  if (is_pattern(name)) return {ErrorKind::not_found, name, "matches no trial that has a container; " + ps};
  std::vector<std::string_view> known;
  known.reserve(observations.size());
  for (const Observation& observation : observations) known.emplace_back(observation.key.trial);
  const auto near = nearest(name, known);
  return {ErrorKind::not_found, name,
          near ? fmt::format("has no container: the trial was not started, or its container has been "
                             "removed; did you mean `{}`?",
                             *near)
               : "has no container: the trial was not started, or its container has been removed; " + ps};
}

}  // namespace

Error of_several_experiments(const std::string& trial, const std::set<std::string>& experiments) {
  return {ErrorKind::invalid, trial,
          fmt::format("matches trials of several experiments ({}); choose one with --experiment NAME",
                      fmt::join(experiments, ", "))};
}

void expect_run(const Invocation& invocation, const SelectionOptions& options) {
  if (options.run.empty()) return;
  const RunId run(options.run);
  const std::string folder = state_folder(caller_for(invocation));
  if (Record::exists(folder) && !Record(folder, Record::Use::reading).runs({.id = run}, 1).empty()) return;
  throw Error(ErrorKind::not_found, "run " + run.text(),
              "is neither on record nor on this engine; `combu ps` lists the runs");
}

std::optional<Error> without_container(const std::string& name, const Invocation& invocation,
                                       const SelectionOptions& options) {
  const auto found = on_record(name, invocation, options);
  if (!found) return std::nullopt;
  const auto& [run, trials] = *found;
  if (trials.size() > 1)
    return Error(ErrorKind::not_found, name,
                 fmt::format("matches {} trials that have no containers; `combu ps --run {} {}` shows the "
                             "states of the trials",
                             trials.size(), run.text(), shell_word(name)));
  const TrialEntry& entry = trials.front();
  if (!is_over(entry.state))
    return Error(
        ErrorKind::not_found, entry.name,
        fmt::format("has no container yet: the trial is {} in run {}; `combu why {} --run {}` explains "
                    "why",
                    to_string(entry.state), run.text(), shell_word(entry.name), run.text()));
  return Error(
      ErrorKind::not_found, entry.name,
      fmt::format("has no container: the trial is {} in run {}{}", to_string(entry.state), run.text(),
                  entry.ran_at ? ", and the container has been removed" : ": " + reason_text(entry)));
}

bool was_skipped(const std::string& name, const Invocation& invocation, const SelectionOptions& options) {
  const auto found = on_record(name, invocation, options);
  return found && std::ranges::all_of(found->trials, [](const TrialEntry& entry) {
           return entry.state == TrialState::skipped;
         });
}

RunFilter filter_of(const Invocation& invocation, const SelectionOptions& options) {
  RunFilter filter{.experiment = options.experiment};
  if (options.run.empty()) {
    filter.simulated = means_simulated(invocation);
  } else {
    filter.id = RunId(options.run);
  }
  if (options.experiment.empty() && !invocation.file.empty()) filter.file = identity_of(invocation.file);
  return filter;
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
  for (const std::string& name :
       experiments_of(session.engine().list(of_file, ListDetail::basic, session.stop()))) {
    selectors.push_back(base);
    selectors.back().experiment = name;
  }
  if (selectors.empty()) selectors.push_back(of_file);
  return selectors;
}

std::vector<Observation> list_all(Session& session, const std::vector<Selector>& selectors,
                                  ListDetail detail) {
  std::vector<Observation> all;
  for (const Selector& selector : selectors) {
    std::vector<Observation> some = session.engine().list(selector, detail, session.stop());
    std::ranges::move(some, std::back_inserter(all));
  }
  return all;
}

std::set<RunId> runs_of(const std::vector<Observation>& attempts) {
  std::set<RunId> runs;
  for (const Observation& seen : attempts) runs.insert(seen.key.run);
  return runs;
}

std::string others_text(Session& session, const Invocation& invocation, const SelectionOptions& options) {
  SelectionOptions any_run = options;
  any_run.run.clear();
  if (!options.run.empty()) {
    std::set<std::string> runs;
    for (const Observation& observation :
         list_all(session, selectors_of(session, invocation, any_run), ListDetail::basic))
      runs.insert(observation.key.run.text());
    if (!runs.empty()) return fmt::format("runs of this experiment: {}", fmt::join(runs, ", "));
  }
  constexpr std::size_t k_shown = 5;
  std::map<std::string, std::size_t> experiments;
  for (const Observation& observation : session.engine().list({}, ListDetail::basic, session.stop())) {
    const bool is_meant = observation.experiment == options.experiment ||
                          (!invocation.file.empty() && observation.file == identity_of(invocation.file));
    if (!is_meant) ++experiments[observation.experiment];
  }
  std::vector<std::string> shown;
  for (const auto& [name, count] : experiments) {
    if (shown.size() == k_shown) {
      shown.push_back(fmt::format("{} more", experiments.size() - k_shown));
      break;
    }
    shown.push_back(fmt::format("{} ({})", name, number_of(count, "container")));
  }
  if (shown.empty()) return {};
  return fmt::format("other experiments on this engine: {}; choose one with --experiment NAME",
                     fmt::join(shown, ", "));
}

std::string with_others(const std::string& text, Session& session, const Invocation& invocation,
                        const SelectionOptions& options) {
  const std::string others = others_text(session, invocation, options);
  return others.empty() ? text : fmt::format("{}; {}", text, others);
}

Chosen choose_attempts(Session& session, const Invocation& invocation, const SelectionOptions& options) {
  const bool anywhere = invocation.file.empty() && options.experiment.empty();
  if (anywhere && options.trials.empty())
    throw Error(ErrorKind::invalid, "", "an experiment must be given; use -f FILE or --experiment NAME");
  std::vector<Observation> all =
      list_all(session, selectors_of(session, invocation, options), ListDetail::basic);
  if (options.trials.empty()) return {.attempts = std::move(all), .missing = {}};

  Chosen chosen;
  std::vector<std::string> missing = options.trials;
  for (const Observation& observation : all) {
    if (!is_chosen(options.trials, observation.key.trial)) continue;
    drop_matching(missing, observation.key.trial);
    chosen.attempts.push_back(observation);
  }
  std::optional<std::string> nothing;  // the message if the engine has no container of the experiment
  for (const std::string& name : missing) {
    if (auto known = without_container(name, invocation, options)) {
      chosen.missing.push_back(*std::move(known));
    } else if (all.empty()) {
      if (!nothing) {
        expect_run(invocation, options);
        nothing = with_others("this engine has no container of the experiment", session, invocation, options);
      }
      chosen.missing.emplace_back(ErrorKind::not_found, name, *nothing);
    } else {
      chosen.missing.push_back(unknown_trial(name, all, invocation));
    }
  }
  const std::set<std::string> experiments = experiments_of(chosen.attempts);
  if (anywhere && experiments.size() > 1) throw of_several_experiments(options.trials.front(), experiments);
  return chosen;
}

std::vector<Observation> chosen_attempts(Session& session, const Invocation& invocation,
                                         const SelectionOptions& options) {
  Chosen chosen = choose_attempts(session, invocation, options);
  if (!chosen.missing.empty()) throw Error(chosen.missing.front());
  return std::move(chosen.attempts);
}

}  // namespace combu
