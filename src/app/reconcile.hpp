#pragma once
// Reconciles runs: records what happened while the runs had no owner.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "combu/record.hpp"
#include "combu/session.hpp"

namespace combu {

enum class Outlook {
  resumable,  // trials that failed and have retries wait for `run --resume`
  ended,      // failed trials are not tried again
};
using TrialNames = std::vector<std::string>;

// True if the engine knows more about the trial than the record. `seen`: nullptr if the engine has no
// container of the trial.
[[nodiscard]] bool is_behind(const TrialEntry& entry, const Observation* seen);

// Records which trials run, which have ended (with their exit codes and the engine's times), which containers
// are gone, and which trials are therefore blocked. The facts come from schedule::reconcile. Starts, stops
// and removes nothing. The session's engine must be the run's, and the run must have no owner. If another
// process changes the run meanwhile, records nothing. Throws Error.
// - `stopped`: trials that the caller has stopped
// - `listed`: all attempts of the run on the engine, if the caller has just listed them
void reconcile_run(Session& session, Record& record, const RunId& run, Outlook outlook,
                   const TrialNames& stopped = {}, std::optional<std::vector<Observation>> listed = {});

// The facts of each trial in their order, by the trial's name.
using UnrecordedFacts = std::map<std::string, std::vector<Fact>, std::less<>>;
struct Reconciliation {
  UnrecordedFacts unrecorded;  // facts that could not be written to the record
  std::optional<Error> error;
  bool was_overtaken = false;  // another process changed the run meanwhile, so nothing was recorded
};
// Like reconcile_run() with Outlook::resumable, for commands that only read. Returns errors in the result;
// throws only Error(cancelled).
[[nodiscard]] Reconciliation try_reconcile(Session& session, Record& record, const RunId& run);
void note_unreconciled(Session& session, const Error& error);
// Calls try_reconcile(), and note_unreconciled() if there is an error.
UnrecordedFacts reconcile_or_note(Session& session, Record& record, const RunId& run);
// Reconciles those runs in `stopped` that are on the caller's record and have no owner; prints a note if that
// fails. `stopped`: the trials that the caller has stopped, by run.
void reconcile_runs_or_note(Session& session, const Invocation& invocation,
                            const std::map<RunId, TrialNames>& stopped);

}  // namespace combu
