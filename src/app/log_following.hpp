#pragma once
// Follows the logs of several attempts as they grow.

#include <set>

#include "app/log_sink.hpp"
#include "combu/session.hpp"

namespace combu {

// Passes the logs on until none of the trials runs and none can begin any more, or the reader has gone, but
// for the attempts in `read`. Waits for an engine that goes away, and says so. Sinks are called from several
// threads, one after the other. Throws Error.
void follow_logs(Session& session, const Invocation& invocation, const SelectionOptions& selection,
                 const LogOptions& wanted, const OpenLogSink& open_sink, const std::set<Key>& read);

}  // namespace combu
