#pragma once
// What happened to a run while nobody was at work on it.

#include <map>
#include <string>
#include <vector>

#include "cli/invocation.hpp"
#include "cli/session.hpp"
#include "combu/record.hpp"

namespace combu {

enum class Intake {
  ended,     // what the engine has as ended, but for what its run would try again
  gone_too,  // and what the engine does not have any more
  last,      // what the engine has as ended: nothing of it will be tried again
};
using TrialNames = std::vector<std::string>;
// Puts it on the run's record, with its exit codes and with the engine's times; a run of which nothing is
// left has ended then. Starts, stops and removes nothing. The session's engine must be the run's, and nobody
// at work on it. Throws Error.
// `stopped`: whose end is the caller's doing.
void take_in(Session& session, Record& record, const RunId& run, Intake intake,
             const TrialNames& stopped = {});

// Intake::ended, for who only looks: where it cannot be done, that is told, and the engine is believed
// anyway.
void take_in_ends(Session& session, Record& record, const RunId& run);
// The same of those runs that are on the caller's record and that nobody is at work on.
void take_in_ends(Session& session, const Invocation& invocation, const std::map<RunId, TrialNames>& stopped);

}  // namespace combu
