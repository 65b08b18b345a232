#pragma once
// What a command is about, found by labels: the file is not evaluated, and need not be there.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/session.hpp"
#include "combu/record.hpp"

namespace combu {

struct SelectionOptions {
  std::string experiment;
  std::string run;
  std::vector<std::string> trials;  // names and patterns of names, as in trial_names.hpp
};
// `invocation` with the default file if it and the options name neither a file, an experiment nor a trial.
[[nodiscard]] Invocation for_selection(const Invocation& invocation, const SelectionOptions& options);

// The runs that the options mean, of which the newest is the last one: the run of --run, else those of
// --experiment or of the file. Those on the simulated engine are meant only if --engine names it.
[[nodiscard]] RunFilter filter_of(const Invocation& invocation, const SelectionOptions& options);

// True if all trials of the last run that is meant which `name` names were skipped, and so have no container.
[[nodiscard]] bool was_skipped(const std::string& name, const Invocation& invocation,
                               const SelectionOptions& options);

// An error that says how the trials stand on record which `name` names and the engine has no container of;
// nullopt: the record has no such trial.
[[nodiscard]] std::optional<Error> without_container(const std::string& name, const Invocation& invocation,
                                                     const SelectionOptions& options);

// invalid: which of these is meant?
[[nodiscard]] Error of_several_experiments(const std::string& trial,
                                           const std::set<std::string>& experiments);

// Where there is no container of it. Throws Error: not_found when --run names one that is not on record
// either; that the record cannot be read.
void expect_run(const Invocation& invocation, const SelectionOptions& options);

// All that has been run from the file.
[[nodiscard]] Selector selector_of_file(const Invocation& invocation, const SelectionOptions& options);

// One selector for each experiment that is meant: --experiment's, or those that have been run from the file,
// or one for the file when there are none. Without either one that selects all.
[[nodiscard]] std::vector<Selector> selectors_of(Session& session, const Invocation& invocation,
                                                 const SelectionOptions& options);

// All that the selectors select.
[[nodiscard]] std::vector<Sighting> list_all(Session& session, const std::vector<Selector>& selectors,
                                             Look look);

// Those that they are of.
[[nodiscard]] std::set<RunId> runs_of(const std::vector<Sighting>& attempts);

// What else is on the engine, for the person whose -f or --run is not what they think: one line, empty when
// there is nothing.
[[nodiscard]] std::string others_text(Session& session, const Invocation& invocation,
                                      const SelectionOptions& options);

// `text`, and what else is on the engine when there is something.
[[nodiscard]] std::string with_others(const std::string& text, Session& session, const Invocation& invocation,
                                      const SelectionOptions& options);

struct Chosen {
  std::vector<Sighting> attempts;
  std::vector<Error> missing;  // not_found, one for each name that names no container
};
// The attempts of the trials that are named, or of a whole experiment. Throws Error: invalid if neither is
// named, or if the trials are of several experiments.
[[nodiscard]] Chosen choose_attempts(Session& session, const Invocation& invocation,
                                     const SelectionOptions& options);

// The same, and throws the first of `missing`.
[[nodiscard]] std::vector<Sighting> chosen_attempts(Session& session, const Invocation& invocation,
                                                    const SelectionOptions& options);

}  // namespace combu
