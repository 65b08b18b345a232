#pragma once
// Reads the results of recorded runs, for the commands that show, compare and export them. Ingests new logs
// and metrics first. If a run has no owner, also reconciles the run (app/reconcile.hpp).

#include <string>
#include <vector>

#include "app/reconcile.hpp"
#include "combu/analysis.hpp"
#include "combu/progress.hpp"
#include "combu/record.hpp"
#include "combu/session.hpp"

namespace combu {

// Recorded runs, and a choice of their trials.
struct ChosenRuns {
  std::vector<std::string> ids;  // different ids; none, or an empty id: the last run of the file
  std::string where;             // a condition; empty: all trials
};

// Returns the results of each run, at least one. Ingests new logs and reconciles the run first, in a session.
// Prints notes about names in the condition for which no trial has a value. Throws Error.
[[nodiscard]] std::vector<Results> read_run_results(const Invocation& invocation, const ChosenRuns& chosen,
                                                    const OpenSession& open_session, Progress& progress);

// Ingests the new logs and metrics of these trials; if `trials` is empty, of all trials. If the run has no
// owner, also reconciles the run. If the engine cannot be read, prints a note.
void refresh_from_engine(const Invocation& invocation, const OpenSession& open_session, Record& record,
                         const RunEntry& entry, const TrialNames& trials = {});

// Returns the note about a name in a condition for which no trial has a value.
[[nodiscard]] std::string valueless_text(const Results& results, const std::string& name);

// Keeps the trials that match the condition; an empty condition matches all. Prints notes about names in the
// condition for which no trial has a value.
void choose(Results& results, const std::string& where, Progress& progress);

}  // namespace combu
