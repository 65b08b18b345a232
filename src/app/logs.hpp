#pragma once
// Reads the logs of trials, or of all trials of a run, from the telemetry database and from the engine.

#include "app/log_sink.hpp"
#include "combu/session.hpp"

namespace combu {

struct LogsOptions {
  SelectionOptions selection;
  LogOptions wanted;
  int attempt = 0;  // 0: the last attempt
  // Opens the sinks. logs() may call the sinks from several threads, one call at a time.
  OpenLogSink open_sink;
};

// If the selection names an experiment, a run or a single trial, returns `invocation` unchanged. Otherwise
// returns with_default_file(invocation).
[[nodiscard]] Invocation for_logs(const Invocation& invocation, const SelectionOptions& selection);

// Passes the logs that the options choose to their sinks. With `wanted.follow`, continues until the trials
// have ended. Throws Error(invalid) if the options choose no logs. Throws Error(not_found) if a named trial
// has no log.
[[nodiscard]] Result logs(Session& session, const Invocation& invocation, const LogsOptions& options);

}  // namespace combu
