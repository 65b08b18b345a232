#pragma once
// What happened to a run while nobody was at work on it.

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
// Puts on the run's record what the engine has as ended, with its exit codes and the engine's times, what it
// does not have any more, and what that means to others. Starts, stops and removes nothing. The session's
// engine must be the run's, and nobody at work on it; if somebody begins to be, nothing is done. Throws
// Error. `stopped`: whose end is the caller's doing. `listed`: all that the engine has of the run, for who
// has just looked once.
void take_in(Session& session, Record& record, const RunId& run, Intake intake,
             const TrialNames& stopped = {}, std::optional<std::vector<Sighting>> listed = {});

// For who only looks: where it cannot be done, that is told, and the engine is believed anyway.
void take_in_all(Session& session, Record& record, const RunId& run);
// The same of those runs that are on the caller's record and that nobody is at work on.
void take_in_all(Session& session, const Invocation& invocation, const std::map<RunId, TrialNames>& stopped);

}  // namespace combu
