#pragma once
// Follows the logs of several attempts while they grow.

#include <set>

#include "app/log_sink.hpp"
#include "combu/session.hpp"

namespace combu {

// Passes the logs of all selected attempts to their sinks, except the logs of the attempts in `read`. Returns
// when no trial runs or can still start, or when the reader of the output has closed the pipe. If the engine
// is unreachable, prints a note and waits. Calls the sinks from several threads, one call at a time. Throws
// Error.
void follow_logs(Session& session, const Invocation& invocation, const SelectionOptions& selection,
                 const LogOptions& wanted, const OpenLogSink& open_sink, const std::set<Key>& read);

}  // namespace combu
