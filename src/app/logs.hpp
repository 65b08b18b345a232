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

// Returns `invocation` with the default file if it names no file and the selection names neither an
// experiment, a run nor a single trial.
[[nodiscard]] Invocation for_logs(const Invocation& invocation, const SelectionOptions& selection);

// Passes on the logs that the options choose. With `wanted.follow`, continues until the trials are over.
// Throws Error: invalid if the options do not say which logs are meant; not_found if a named trial has no
// log.
[[nodiscard]] Result logs(Session& session, const Invocation& invocation, const LogsOptions& options);

}  // namespace combu
