#pragma once
// Exports results for other programs: to files, and to an MLflow server.

#include <functional>
#include <ostream>
#include <span>
#include <string>

#include "combu/analysis.hpp"

namespace combu {

// True if `path` is, or can become, a regular file that can be replaced. False for a pipe, a device, or an
// open descriptor such as /dev/stdout.
[[nodiscard]] bool is_file_to_be(const std::string& path);
// Replaces the file at `path` by the output of `write`, in one atomic step after all output is written. If
// `path` is no regular file (a pipe, a device), writes to it directly. Throws Error(refused) if `path` cannot
// be written.
void write_file(const std::string& path, const std::function<void(std::ostream&)>& write);

// Writes a row for each trial: run, trial, fields, params, metrics. In CSV (RFC 4180), NaN and infinite
// numbers are nan, inf and -inf, which pandas and DuckDB read; in JSON they are null. No two CSV columns have
// names that differ only in case. If the name of a param or metric is already used, its column is
// "params.NAME" or "metrics.NAME", or with a number "params.NAME_2".
void export_csv(std::ostream& out, std::span<const Results> runs);
void export_json(std::ostream& out, std::span<const Results> runs);
// Writes a row for each metric point: run, trial, metric, step, time, value.
void export_points_csv(std::ostream& out, std::span<const Results> runs);
void export_points_json(std::ostream& out, std::span<const Results> runs);
// Writes a new SQLite file with the tables runs, trials, params, metrics and points, which replaces any file
// at `path`. Throws Error(refused) if it cannot be written, or if `path` is no regular file, such as a pipe
// or a device.
void export_sqlite(const std::string& path, std::span<const Results> runs);

struct MlflowForm {
  std::string uri;  // address of the server, as for MlflowServer
  // Returns where the outputs of a trial are; "" if there are none. Called from several threads.
  std::function<std::string(const TrialEntry& trial)> outputs_of;
  // Returns the time at which an earlier attempt of a trial ended, if known. Calls do not overlap.
  std::function<std::optional<Instant>(const std::string& trial, int attempt)> ended_at_of;
  std::function<void(std::size_t count, std::size_t total)> tell;
  // Reports a value or name that MLflow stores in a different form. Called from several threads, but calls do
  // not overlap.
  std::function<void(const std::string& line)> note;
};

// Exports the run's trials as runs of an MLflow experiment of the same name, with params, tags, all points,
// times and states.
// May be repeated, also after a failed export: MLflow runs of an earlier export are found by the tags
// combu.run, combu.trial and combu.attempt, and are updated. Each attempt is an MLflow run of its own,
// because points cannot be removed. MLflow runs of earlier attempts are closed.
// Sends several requests at the same time. Blocks until all are answered or `stop` is requested. Throws
// Error.
void export_to_mlflow(const Results& results, const MlflowForm& form, const std::stop_token& stop);

}  // namespace combu
