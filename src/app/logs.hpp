#pragma once
// Reads the logs of trials, or of all of a run, from what is kept of them and from the engine.

#include "app/log_sink.hpp"
#include "combu/session.hpp"

namespace combu {

struct LogsOptions {
  SelectionOptions selection;
  LogOptions wanted;
  int attempt = 0;  // 0: the last one
  // Sinks may be called from several threads, one after the other.
  OpenLogSink open_sink;
};

// `invocation` with the default file if it and the selection name neither a file, an experiment, a run nor
// one trial.
[[nodiscard]] Invocation for_logs(const Invocation& invocation, const SelectionOptions& selection);

// Passes on the logs that the options choose, and with `wanted.follow` what is written until their trials are
// over. Throws Error: invalid if it is not clear what is meant; not_found if there is no log of a trial that
// is named.
[[nodiscard]] Result logs(Session& session, const Invocation& invocation, const LogsOptions& options);

}  // namespace combu
