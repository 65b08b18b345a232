#pragma once
// Sends the results of runs to an MLflow server.

#include <span>
#include <stop_token>
#include <string>

#include "app/run_results.hpp"
#include "combu/analysis.hpp"
#include "combu/progress.hpp"

namespace combu {

// `runs`: what `source` has read. `server`: its URL; empty: that of MLFLOW_TRACKING_URI. Shows how many
// trials have been sent. Throws Error: invalid if no server is named; those of export_to_mlflow().
void send_to_mlflow(RunResults& source, std::span<const Results> runs, const std::string& server,
                    Progress& progress, const std::stop_token& stop);

}  // namespace combu
