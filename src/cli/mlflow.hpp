#pragma once
// Hands runs on to an MLflow server: https://mlflow.org/docs/latest/rest-api.html

#include <cstddef>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "combu/view.hpp"

namespace combu {

struct MlflowForm {
  std::string uri;  // as for MlflowServer
  // Where the outputs of a trial are; empty: it has none, or they are nowhere. From several threads.
  std::function<std::string(const TrialEntry& trial)> outputs_of;
  // When an earlier attempt of it ended, where that is known. One call at a time.
  std::function<std::optional<Instant>(const std::string& trial, int attempt)> ended_at_of;
  std::function<void(std::size_t count, std::size_t total)> tell;
  // What is not there as it is here: from several threads, but one at a time.
  std::function<void(const std::string& line)> note;
};

// The run's trials as runs of an MLflow experiment of the same name, with params, tags, all points, times and
// states. What an earlier call has left there, found by the tags combu.run, combu.trial and combu.attempt, is
// brought up to date: it may be repeated, also after one that failed half-way. A run there is one attempt,
// since points cannot be taken back: those of earlier attempts are closed. Several requests are under way at
// the same time. Throws Error.
void export_to_mlflow(const Results& results, const MlflowForm& form, const std::stop_token& stop);

}  // namespace combu
