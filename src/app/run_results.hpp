#pragma once
// Reads the results of recorded runs, for the commands that show, compare and export results. Ingests new
// logs and metrics first. If a run has no owner, also reconciles the run (app/reconcile.hpp).

#include <string>
#include <vector>

#include "app/reconcile.hpp"
#include "combu/analysis.hpp"
#include "combu/progress.hpp"
#include "combu/record.hpp"
#include "combu/session.hpp"

namespace combu {

// The recorded runs to read, and the condition that chooses their trials.
struct ChosenRuns {
  std::vector<std::string> ids;  // ids of different runs; no id or an empty id: the last run of the file
  std::string where;             // a condition; empty: all trials
};

// Returns the results of each chosen run; the list is never empty. For each run, first opens a session to
// ingest new logs and to reconcile the run. For each name in the condition, prints a note if no trial has a
// value for this name. Throws Error.
[[nodiscard]] std::vector<Results> read_run_results(const Invocation& invocation, const ChosenRuns& chosen,
                                                    const OpenSession& open_session, Progress& progress);

// Ingests the new logs and metrics of `trials`. If `trials` is empty, ingests the new logs and metrics of all
// trials of the run. If the run has no owner, also reconciles the run. If the engine cannot be read, prints a
// note.
void refresh_from_engine(const Invocation& invocation, const OpenSession& open_session, Record& record,
                         const RunEntry& entry, const TrialNames& trials = {});

// Returns the note that no trial has a value for a name that the condition uses.
[[nodiscard]] std::string valueless_text(const Results& results, const std::string& name);

// Removes from `results` the trials that do not match the condition `where`. An empty condition matches all
// trials. For each name in the condition, prints a note if no trial has a value for this name.
void choose(Results& results, const std::string& where, Progress& progress);

}  // namespace combu
