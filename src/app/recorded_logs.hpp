#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/log_sink.hpp"
#include "combu/record.hpp"
#include "combu/session.hpp"
#include "combu/telemetry.hpp"

namespace combu {

// The newest run that a selection matches, with its trials and its stored logs.
class RecordedLogs {
 public:
  // `trial`: the only trial to read; empty: all trials that the selection names.
  RecordedLogs(const Invocation& invocation, const SelectionOptions& selection, const std::string& trial);

  // Throws Error if the record or the logs could not be read.
  void expect_readable() const {
    if (fault_) throw Error(*fault_);
  }

  // Throws Error(not_found) if the file lets combu store no log of the trial.
  void expect_stored(const std::string& trial) const;

  // Searches all recorded runs for the newest run in which a trial with this name ran or was skipped, and
  // selects that run. If there is no such run, changes nothing. Throws Error(invalid) if trials with this
  // name belong to several experiments.
  void look_everywhere(const std::string& trial);

  [[nodiscard]] const std::optional<RunId>& run() const { return run_; }
  [[nodiscard]] const std::vector<TrialEntry>& trials() const { return trials_; }
  // Returns the names in the selection that match no trial of the run.
  [[nodiscard]] const std::vector<std::string>& unmatched() const { return unmatched_; }
  // Returns the attempt whose log is the trial's log, see telemetry_attempt().
  [[nodiscard]] Key key_of(const TrialEntry& entry) const;

  [[nodiscard]] std::optional<StoredLog> log(const std::string& trial, int attempt) {
    return telemetry_ ? telemetry_->log(trial, attempt) : std::nullopt;
  }

  // True if the log of the trial's last attempt is stored completely, or if the trial never ran.
  [[nodiscard]] bool is_whole(const TrialEntry& entry);
  // True if is_whole() holds for all trials; false if there are no trials.
  [[nodiscard]] bool are_whole();

  // Passes `log`, which log() returned for `key`, to the sink. Returns false if the reader of the output has
  // closed the pipe.
  [[nodiscard]] bool read(const Key& key, const StoredLog& log, const LogOptions& wanted, LogSink& sink);

 private:
  void open_telemetry();

  std::string folder_;
  std::optional<RunId> run_;
  std::vector<TrialEntry> trials_;
  std::vector<std::string> unmatched_;
  std::unique_ptr<Telemetry> telemetry_;
  std::optional<Error> fault_;
};

}  // namespace combu
