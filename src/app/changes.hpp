#pragma once
// Compares a run on record with its edited file, and chooses the trials that are started again.

#include <cstddef>
#include <string>
#include <unordered_set>
#include <vector>

#include "combu/plan.hpp"
#include "combu/progress.hpp"
#include "combu/record.hpp"
#include "combu/schedule.hpp"
#include "combu/spec.hpp"

namespace combu {

// The trials that the user asks to start again, in addition to those whose edited text requires a start.
// trials_meant() parses each name or condition.
struct RestartRequest {
  std::vector<std::string> again;    // start these trials again, even if they succeeded
  bool failed = false;               // start all trials again that failed, were stopped or were blocked
  std::vector<std::string> replace;  // start these trials again if their text changed
};

// Each TrialIndex is an index into `experiment.trials`.
struct Changes {
  Experiment experiment;      // the run's experiment after the change; new trials follow the trials on record
  Plan plan;                  // of `experiment`
  std::vector<Error> errors;  // errors that prevent a plan of `experiment`; empty if `plan` is valid

  std::size_t joined = 0;           // number of new trials
  std::size_t gone = 0;             // number of trials that the run's newest text has, but the file lacks
  std::vector<TrialIndex> removed;  // trials that the file lacks and that have not ended
  std::vector<TrialIndex> updated;  // trials whose text on record is replaced by the file's text
  std::vector<TrialIndex> again;    // trials that are started again; a running attempt is stopped first
  std::vector<TrialIndex> named;    // the trials in `again` that RestartRequest::again names
  std::size_t retried = 0;          // number of trials in `again` that had failed or that the user named

  // Changed trials that keep their earlier text on record, in three lists by their state. `experiment`
  // already contains the file's text of the trials in `unsuccessful`. The record gets that text when these
  // trials are started again.
  std::vector<TrialIndex> running;
  std::vector<TrialIndex> succeeded;
  std::vector<TrialIndex> unsuccessful;

  [[nodiscard]] bool none() const {
    return joined == 0 && removed.empty() && updated.empty() && again.empty();
  }
  // Returns the number of trials whose recorded text differs from their text in the file.
  [[nodiscard]] std::size_t changed() const {
    return updated.size() + running.size() + succeeded.size() + unsuccessful.size();
  }
};

// `trials`: the trials that the user starts again. Returns one flag for each of these trials. The flag is
// true if the trial must run even if the cache has a result. The flag of a blocked trial is false: the trial
// has not run yet, so combu may use the result of an equal trial.
[[nodiscard]] Anew anew_of(const std::vector<TrialIndex>& trials, const std::vector<RestoredTrial>& restored);

using TrialNameSet = std::unordered_set<std::string>;
// The names of the trials in the recorded texts of a run.
struct Named {
  TrialNameSet latest;  // in the run's newest text
  TrialNameSet ever;    // in any text of the run
};
[[nodiscard]] Named named_until_now(const RunEntry& entry, const Caller& caller);

// Compares the run with `file`. `before`: the run's trials on record. `restored`: their states. Throws Error
// if a request in `restart` cannot be met.
[[nodiscard]] Changes compare_with_file(const RunId& run, const Experiment& before,
                                        const std::vector<RestoredTrial>& restored, const Named& named,
                                        const Experiment& file, const RestartRequest& restart);

// Prints the changes on `progress`: how many trials changed, are new or were removed, and which changed
// trials keep their earlier text.
void print_changes(Progress& progress, const RunId& run, const Changes& changes,
                   const RestartRequest& restart);

}  // namespace combu
