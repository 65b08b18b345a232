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

// The requests that a person makes in addition to the edited text. trials_meant() parses each name or
// condition.
struct Wishes {
  std::vector<std::string> again;    // start these trials again, however they ended
  bool failed = false;               // start trials that failed, were stopped or were blocked again
  std::vector<std::string> replace;  // of these trials, run the changed ones again
};

// An index of a trial refers to `experiment`.
struct Changes {
  Experiment experiment;      // the run's experiment after the change; new trials follow the trials on record
  Plan plan;                  // of `experiment`
  std::vector<Error> errors;  // why no plan can be made; empty if there is a plan

  std::size_t joined = 0;           // number of new trials
  std::size_t gone = 0;             // number of trials in the run's newest text that the file lacks
  std::vector<TrialIndex> removed;  // trials that the file lacks and that have not ended
  std::vector<TrialIndex> taken;    // trials that get the file's text
  std::vector<TrialIndex> again;    // wait for a new attempt; if an attempt runs, until it has ended
  std::vector<TrialIndex> named;    // trials of `again` that Wishes::again names
  std::size_t tried_again = 0;      // number of trials of `again` that failed or were requested

  // Changed trials that keep their earlier text on record, by their state. `unsuccessful` trials already have
  // the file's text in `experiment`; the record gets that text when they are started again.
  std::vector<TrialIndex> running;
  std::vector<TrialIndex> succeeded;
  std::vector<TrialIndex> unsuccessful;

  [[nodiscard]] bool none() const { return joined == 0 && removed.empty() && taken.empty() && again.empty(); }
  // Returns the number of trials on record whose text differs in the file.
  [[nodiscard]] std::size_t changed() const {
    return taken.size() + running.size() + succeeded.size() + unsuccessful.size();
  }
};

// Returns a flag for each trial that a person starts again: true if the trial must run even if the cache has
// a result. The flag is false for blocked trials: they have not run yet, so an equal trial's success counts.
[[nodiscard]] Anew anew_of(const std::vector<TrialIndex>& trials, const std::vector<RestoredTrial>& restored);

using TrialNameSet = std::unordered_set<std::string>;
// The names of the trials in the texts of a run.
struct Named {
  TrialNameSet latest;  // in the run's newest text
  TrialNameSet ever;    // in any text of the run
};
[[nodiscard]] Named named_until_now(const RunEntry& entry, const Caller& caller);

// Compares the run with `file`. `before`: the run's trials on record. `restored`: their states. Throws Error
// if a request in `wishes` cannot be met.
[[nodiscard]] Changes compare_with_file(const RunId& run, const Experiment& before,
                                        const std::vector<RestoredTrial>& restored, const Named& named,
                                        const Experiment& file, const Wishes& wishes);

// Prints the changes on `progress`: how many trials changed, are new or were removed, and which changed
// trials keep their earlier text.
void print_changes(Progress& progress, const RunId& run, const Changes& changes, const Wishes& wishes);

}  // namespace combu
