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

// The requests that a person makes beside the edited text. trials_meant() reads each name or condition.
struct Wishes {
  std::vector<std::string> again;    // start these again, however they ended
  bool failed = false;               // start what failed, was stopped or blocked again
  std::vector<std::string> replace;  // of these, run what changed again
};

// Trials are indices into `experiment`, unless something else is said.
struct Changes {
  Experiment experiment;      // as the run has it from here on; trials that join follow those on record
  Plan plan;                  // of `experiment`
  std::vector<Error> errors;  // why there is no plan

  std::size_t joined = 0;           // trials that join
  std::size_t gone = 0;             // trials that the file no longer has
  std::vector<TrialIndex> removed;  // those that the file no longer has, and that were not over
  std::vector<TrialIndex> taken;    // have the file's text from here on
  std::vector<TrialIndex>
      again;  // wait again, for a new attempt; when one of theirs runs, until it has ended
  std::vector<TrialIndex> named;  // those of `again` that Wishes::again names
  std::size_t tried_again = 0;    // how many of `again` failed, or were asked for

  // Changed trials that keep their earlier text on record: they run or succeeded, or were unsuccessful. The
  // last ones have the file's text in `experiment`, and on record when they are started again.
  std::vector<TrialIndex> running;
  std::vector<TrialIndex> succeeded;
  std::vector<TrialIndex> unsuccessful;

  [[nodiscard]] bool none() const { return joined == 0 && removed.empty() && taken.empty() && again.empty(); }
  // Trials on record whose text is another one in the file.
  [[nodiscard]] std::size_t changed() const {
    return taken.size() + running.size() + succeeded.size() + unsuccessful.size();
  }
};

// A person who starts `trials` again wants them run, whatever has been done before. A blocked trial has not
// been run yet, so an equal trial's success counts.
[[nodiscard]] Anew anew_of(const std::vector<TrialIndex>& trials, const std::vector<RestoredTrial>& restored);

using TrialNameSet = std::unordered_set<std::string>;
// The trials that a run's file has named.
struct Named {
  TrialNameSet latest;  // in the run's newest text
  TrialNameSet ever;    // in any of them
};
[[nodiscard]] Named named_until_now(const RunEntry& entry, const Caller& caller);

// Compares the run with `file`. `before`: its trials on record, whose states are `past`. Throws Error for a
// wish that cannot be granted.
[[nodiscard]] Changes compare_with_file(const RunId& run, const Experiment& before,
                                        const std::vector<RestoredTrial>& restored, const Named& named,
                                        const Experiment& file, const Wishes& wishes);

// Describes the changes on `progress`: how many trials changed, are new and were removed, and which of the
// changed ones keep their earlier text.
void print_changes(Progress& progress, const RunId& run, const Changes& changes, const Wishes& wishes);

}  // namespace combu
