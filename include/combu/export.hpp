#pragma once
// Exports results for other programs: to files, and to an MLflow server.

#include <functional>
#include <ostream>
#include <span>
#include <string>

#include "combu/analysis.hpp"

namespace combu {

// Whether `path` is, or will be, a file that can be replaced; else it is a pipe, a device, or what a process
// has open (/dev/stdout).
[[nodiscard]] bool is_file_to_be(const std::string& path);
// Puts what `write` writes in place of what the file held, in one step and when all of it is there. What is
// not a file takes it at once. Throws Error(refused).
void write_file(const std::string& path, const std::function<void(std::ostream&)>& write);

// A row for each trial: run, trial, fields, params, metrics. What is no number is nan, inf or -inf (RFC 4180
// and what pandas and DuckDB read), in JSON null. No two columns have names that are the same but for upper
// and lower case: a param or metric whose name is taken is "params.NAME" or "metrics.NAME", or
// "params.NAME_2".
void export_csv(std::ostream& out, std::span<const Results> runs);
void export_json(std::ostream& out, std::span<const Results> runs);
// A row for each point: run, trial, metric, step, time, value.
void export_points_csv(std::ostream& out, std::span<const Results> runs);
void export_points_json(std::ostream& out, std::span<const Results> runs);
// A new SQLite file in place of what there is at `path`, which is no pipe or device: runs, trials, params,
// metrics, points. Throws Error.
void export_sqlite(const std::string& path, std::span<const Results> runs);

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
