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
  resumable,  // failed trials with remaining retries wait for `run --resume`
  ended,      // failed trials are not retried
};
using TrialNames = std::vector<std::string>;

// True if the engine knows more about the trial than the record. `seen`: nullptr if the engine has no
// container of the trial.
[[nodiscard]] bool is_behind(const TrialEntry& entry, const Observation* seen);

// Records which trials run, which have ended (with exit codes and the engine's timestamps), which containers
// are gone, and which trials are therefore blocked. The planner's function reconcile() determines the facts.
// Starts, stops and removes nothing. The session's engine must be the engine of the run, and the run must
// have no owner. If another process changes the run during this call, records nothing. `stopped`: the trials
// that the caller has stopped. `listed`: all attempts of the run on the engine, if the caller has just listed
// the engine. Throws Error.
void reconcile_run(Session& session, Record& record, const RunId& run, Outlook outlook,
                   const TrialNames& stopped = {}, std::optional<std::vector<Observation>> listed = {});

// The facts of each trial in chronological order; the key is the trial's name.
using UnrecordedFacts = std::map<std::string, std::vector<Fact>, std::less<>>;
struct Reconciliation {
  UnrecordedFacts unrecorded;  // facts that could not be written to the record
  std::optional<Error> error;
  // another process changed the run during the reconciliation, so nothing was recorded
  bool was_overtaken = false;
};
// Like reconcile_run() with Outlook::resumable, for commands that only read. Returns errors in the result;
// throws only Error(cancelled).
[[nodiscard]] Reconciliation try_reconcile(Session& session, Record& record, const RunId& run);
void note_unreconciled(Session& session, const Error& error);
// Calls try_reconcile(). If the result contains an error, calls note_unreconciled().
UnrecordedFacts reconcile_or_note(Session& session, Record& record, const RunId& run);
// Reconciles the runs in `stopped` that are on the caller's record and have no owner. If this fails, prints a
// note. `stopped`: the trials that the caller has stopped, by run.
void reconcile_runs_or_note(Session& session, const Invocation& invocation,
                            const std::map<RunId, TrialNames>& stopped);

}  // namespace combu
