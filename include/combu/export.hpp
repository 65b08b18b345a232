#pragma once
// Exports results to files for other programs, and to an MLflow server.

#include <functional>
#include <ostream>
#include <span>
#include <string>

#include "combu/analysis.hpp"

namespace combu {

// True if `path` is a regular file, or if `path` does not exist and can become a regular file. False for a
// pipe, a device, or an open descriptor such as /dev/stdout.
[[nodiscard]] bool is_file_to_be(const std::string& path);
// Replaces the file at `path` with the output of `write`, in one atomic step after `write` has returned. If
// `path` is not a regular file but a pipe or a device, writes to `path` directly. Throws Error(refused) if
// `path` cannot be written.
void write_file(const std::string& path, const std::function<void(std::ostream&)>& write);

// Writes a row for each trial. The columns are the run, the trial, the fields, the params and the metrics. In
// CSV (RFC 4180), NaN and infinite numbers are written as nan, inf and -inf, which pandas and DuckDB read. In
// JSON, these numbers are null. No two CSV columns have names that differ only in case. If an earlier
// column has the name of a param or metric, the column of the param or metric is named "params.NAME" or
// "metrics.NAME". If this name is also used, a number follows, for example "params.NAME_2".
void export_csv(std::ostream& out, std::span<const Results> runs);
void export_json(std::ostream& out, std::span<const Results> runs);
// Writes a row for each metric point. The columns are run, trial, metric, step, time and value.
void export_points_csv(std::ostream& out, std::span<const Results> runs);
void export_points_json(std::ostream& out, std::span<const Results> runs);
// Writes the tables runs, trials, params, metrics and points to a new SQLite file, which replaces any file at
// `path`. Throws Error(refused) if the file cannot be written, or if `path` is a pipe or a device.
void export_sqlite(const std::string& path, std::span<const Results> runs);

struct MlflowForm {
  std::string uri;  // address of the MLflow server, such as "http://HOST:PORT" or "https://HOST/PATH"
  // Returns the folder or bucket of a trial's outputs, or "" if the trial has no outputs. Called from several
  // threads.
  std::function<std::string(const TrialEntry& trial)> outputs_of;
  // Returns the moment at which an earlier attempt of a trial ended, if known. The exporter never makes two
  // calls at the same time.
  std::function<std::optional<Instant>(const std::string& trial, int attempt)> ended_at_of;
  std::function<void(std::size_t count, std::size_t total)> on_progress;
  // Reports a value or name that MLflow cannot store unchanged. Called from several threads, but never by two
  // threads at the same time.
  std::function<void(const std::string& line)> note;
};

// Exports the run's trials as runs of the MLflow experiment with the name RunEntry::experiment. Exports
// params, tags, all points, times and states. The export may be repeated, also after a failed export. In this
// case the exporter finds the MLflow runs of the earlier export by the tags combu.run, combu.trial and
// combu.attempt, and updates these runs. Each attempt has its own MLflow run, because points cannot be
// removed from an MLflow run. The exporter ends the MLflow runs of a trial's earlier attempts. Sends several
// requests at the same time. Blocks until the server has answered all requests, or until `stop` is requested.
// Throws Error.
void export_to_mlflow(const Results& results, const MlflowForm& form, const std::stop_token& stop);

}  // namespace combu
