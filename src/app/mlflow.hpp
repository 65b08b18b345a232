#pragma once
// Sends the results of runs to an MLflow server. Reconciles, as read_run_results() does.

#include <string>

#include "app/run_results.hpp"
#include "combu/progress.hpp"
#include "combu/session.hpp"

namespace combu {

// `server`: its URL; empty: that of MLFLOW_TRACKING_URI. Shows how many trials have been sent. SIGINT and
// SIGTERM cancel the sending. Throws Error: invalid if no server is named; those of read_run_results() and
// export_to_mlflow().
void send_to_mlflow(const Invocation& invocation, const ChosenRuns& chosen, const std::string& server,
                    const OpenSession& open_session, Progress& progress);

}  // namespace combu
