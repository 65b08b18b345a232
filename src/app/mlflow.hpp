#pragma once
// Sends the results of runs to an MLflow server.

#include <span>
#include <stop_token>
#include <string>

#include "combu/analysis.hpp"
#include "combu/progress.hpp"
#include "combu/session.hpp"

namespace combu {

// Sends the results of `runs`, and shows how many trials have been sent. `server`: the server's URL; empty:
// the URL in MLFLOW_TRACKING_URI. Throws Error(invalid) if no server is given. Also throws the errors of
// export_to_mlflow(), such as Error(cancelled).
void send_to_mlflow(const Invocation& invocation, std::span<const Results> runs, const std::string& server,
                    Progress& progress, const std::stop_token& stop);

}  // namespace combu
