#pragma once
// What runs on record have left in numbers, for the commands that show, compare and hand it on. Reconciles:
// of a run that no process is at work on it puts on record what has ended (app/reconcile.hpp), and keeps what
// trials have written since.

#include <string>
#include <vector>

#include "app/reconcile.hpp"
#include "combu/analysis.hpp"
#include "combu/progress.hpp"
#include "combu/record.hpp"
#include "combu/session.hpp"

namespace combu {

// Runs on record, and which of their trials.
struct ChosenRuns {
  std::vector<std::string> ids;  // different ones; none, or an empty one: the last run of the file
  std::string where;             // a condition; empty: all trials
};

// Returns the results of each run, at least one. Ingests new logs and reconciles the run first, in a session.
// Notes names in the condition that no trial has a value of. Throws Error.
[[nodiscard]] std::vector<Results> read_run_results(const Invocation& invocation, const ChosenRuns& chosen,
                                                    const OpenSession& open_session, Progress& progress);

// Takes in what the trials of the run (these; empty: all) have written since it was done last, and, where
// nobody is at work on it, what has ended. That it cannot be had is told.
void refresh_from_engine(const Invocation& invocation, const OpenSession& open_session, Record& record,
                         const RunEntry& entry, const TrialNames& trials = {});

// Of a name in a condition that no trial has a value of: what is said of it.
[[nodiscard]] std::string valueless_text(const Results& results, const std::string& name);

// Keeps the trials of which the condition is so; an empty one is so of all. Says which names in it no trial
// has a value of.
void choose(Results& results, const std::string& where, Progress& progress);

}  // namespace combu
