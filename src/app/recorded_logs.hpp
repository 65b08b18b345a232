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

// The logs that are kept of the newest run that is meant, and its trials.
class RecordedLogs {
 public:
  // `trial`: only its logs; empty: those of all trials that the selection names.
  RecordedLogs(const Invocation& invocation, const SelectionOptions& selection, const std::string& trial);

  // Throws Error if they could not be read: why.
  void expect_readable() const {
    if (fault_) throw Error(*fault_);
  }

  // Goes over to the newest run in which a trial of this name has begun to run, or was skipped, of all there
  // are; none where there is none. Throws Error: invalid when it did in several experiments.
  void look_everywhere(const std::string& trial);

  [[nodiscard]] const std::optional<RunId>& run() const { return run_; }
  [[nodiscard]] const std::vector<TrialEntry>& trials() const { return trials_; }
  // The names of the selection that no trial of the run has.
  [[nodiscard]] const std::vector<std::string>& unmatched() const { return unmatched_; }
  // The attempt whose log is the trial's.
  [[nodiscard]] Key key_of(const TrialEntry& entry) const;

  [[nodiscard]] std::optional<KeptLog> log(const std::string& trial, int attempt) {
    return telemetry_ ? telemetry_->log(trial, attempt) : std::nullopt;
  }

  // True if all that the trial's last attempt has written is kept, or it never ran.
  [[nodiscard]] bool is_whole(const TrialEntry& entry);
  // The same of all trials; false if there are none.
  [[nodiscard]] bool are_whole();

  // Passes `log` on, which log() has returned for `key`. False: the reader has gone.
  [[nodiscard]] bool read(const Key& key, const KeptLog& log, const LogOptions& wanted, LogSink& sink);

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
