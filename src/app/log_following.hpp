#pragma once
// Follows the logs of several attempts while they grow.

#include <set>

#include "app/log_sink.hpp"
#include "combu/session.hpp"

namespace combu {

// Passes on the logs, except those of the attempts in `read`. Returns when no trial runs or can still begin,
// or when the reader has closed its end. If the engine is unreachable, prints a note and waits. Calls the
// sinks from several threads, one call at a time. Throws Error.
void follow_logs(Session& session, const Invocation& invocation, const SelectionOptions& selection,
                 const LogOptions& wanted, const OpenLogSink& open_sink, const std::set<Key>& read);

}  // namespace combu
