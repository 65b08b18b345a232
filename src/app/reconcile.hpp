#pragma once
// Reconciles runs: puts on record what happened while no process was at work on them.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/invocation.hpp"
#include "app/session.hpp"
#include "combu/record.hpp"

namespace combu {

enum class Intake {
  all,   // what failed and has retries waits for `run --resume`
  last,  // nothing will be tried again
};
using TrialNames = std::vector<std::string>;

// True if the record lacks what the engine has of the trial. nullptr: it has no container of the trial.
[[nodiscard]] bool is_behind(const TrialEntry& entry, const Sighting* seen);

// Puts on record which trials run and which have ended, with their exit codes and the engine's times, which
// containers are gone, and which trials are blocked by these ends; schedule::reconcile decides. Starts, stops
// and removes nothing. The session's engine must be the run's, and no process may be at work on the run; if
// one begins to be, the record does not change. Throws Error. `stopped`: trials that the caller has stopped.
// `listed`: all that the engine has of the run, if the caller has just listed it.
void take_in(Session& session, Record& record, const RunId& run, Intake intake,
             const TrialNames& stopped = {}, std::optional<std::vector<Sighting>> listed = {});

// Facts by the trial's name, in their order.
using UnrecordedFacts = std::map<std::string, std::vector<Fact>, std::less<>>;
// The same for commands that only read: an error is a note. Returns the facts that could not be put on
// record.
UnrecordedFacts take_in_all(Session& session, Record& record, const RunId& run);
// The same of those runs that are on the caller's record and that nobody is at work on.
void take_in_all(Session& session, const Invocation& invocation, const std::map<RunId, TrialNames>& stopped);

}  // namespace combu
