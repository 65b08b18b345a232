#pragma once
// Reconciles runs: puts on record what happened while no process was at work on them.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "combu/record.hpp"
#include "combu/session.hpp"

namespace combu {

enum class Outlook {
  resumable,  // trials that failed and have retries wait for `run --resume`
  ended,      // no process will try failed trials again
};
using TrialNames = std::vector<std::string>;

// True if the record lacks what the engine has of the trial. nullptr: it has no container of the trial.
[[nodiscard]] bool is_behind(const TrialEntry& entry, const Observation* seen);

// Puts on record which trials run and which have ended, with their exit codes and the engine's times, which
// containers are gone, and which trials are blocked by these ends; schedule::reconcile decides. Starts, stops
// and removes nothing. The session's engine must be the run's, and no process may be at work on the run; if
// one begins to be, the record does not change. Throws Error. `stopped`: trials that the caller has stopped.
// `listed`: all that the engine has of the run, if the caller has just listed it.
void reconcile_run(Session& session, Record& record, const RunId& run, Outlook outlook,
                   const TrialNames& stopped = {}, std::optional<std::vector<Observation>> listed = {});

// Facts by the trial's name, in their order.
using UnrecordedFacts = std::map<std::string, std::vector<Fact>, std::less<>>;
struct Reconciliation {
  UnrecordedFacts unrecorded;  // the record could not be written
  std::optional<Error> error;
  bool was_overtaken = false;  // another process changed the run meanwhile: nothing was recorded
};
// As reconcile_run() with Outlook::resumable, for commands that only read. Throws only Error(cancelled).
[[nodiscard]] Reconciliation try_reconcile(Session& session, Record& record, const RunId& run);
void note_unreconciled(Session& session, const Error& error);
// Calls both.
UnrecordedFacts reconcile_or_note(Session& session, Record& record, const RunId& run);
// The same for runs on the caller's record that no process is at work on. `stopped`: as for reconcile_run(),
// by run.
void reconcile_runs_or_note(Session& session, const Invocation& invocation,
                            const std::map<RunId, TrialNames>& stopped);

}  // namespace combu
