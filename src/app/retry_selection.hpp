#pragma once
// Selects the trials of a run that are started again.

#include <cstddef>
#include <vector>

#include "combu/plan.hpp"
#include "combu/schedule.hpp"
#include "combu/spec.hpp"

namespace combu {

// True if the trial itself failed or was stopped. False for a stopped service, which is started again with
// the trials that need the service.
[[nodiscard]] bool ended_unsuccessfully(const Trial& trial, TrialState state);

// The dependencies that are started again together with a trial: only ended services, or also trials that
// failed or were blocked.
enum class Needs { services, all };

class RetrySelection {
 public:
  // `restored`: the states of the experiment's first trials; the trials after these are new. All arguments
  // must outlive this object.
  RetrySelection(const Experiment& experiment, const Plan& plan, const std::vector<RestoredTrial>& restored)
      : experiment_(experiment), plan_(plan), restored_(restored), added_(restored.size()) {}

  // Adds the trial, and those of its direct and indirect dependencies that `needs` selects.
  void add(TrialIndex trial, Needs needs);
  // Adds the dependencies of `trial` like add(), but not `trial` itself, which is started anyway.
  void add_needs_of(TrialIndex trial, Needs needs);
  // Adds the blocked trials that depend on an added trial.
  void add_blocked();

  [[nodiscard]] const std::vector<TrialIndex>& trials() const { return trials_; }

 private:
  void put(TrialIndex trial);
  void put_needs_of(TrialIndex trial, Needs needs);
  void put_needs_from(std::size_t first, Needs needs);

  const Experiment& experiment_;
  const Plan& plan_;
  const std::vector<RestoredTrial>& restored_;
  std::vector<bool> added_;
  std::vector<TrialIndex> trials_;
};

}  // namespace combu
