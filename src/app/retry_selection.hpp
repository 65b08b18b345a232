#pragma once
// Which trials of a run are started once more.

#include <cstddef>
#include <vector>

#include "combu/plan.hpp"
#include "combu/schedule.hpp"
#include "combu/spec.hpp"

namespace combu {

// True of a trial that failed or was stopped itself. A service that was stopped is started with those that
// need it.
[[nodiscard]] bool ended_unsuccessfully(const Trial& trial, TrialState state);

// What comes along of that which a trial needs: services that are over, or what has failed or was blocked,
// too.
enum class Needs { services, all };

class RetrySelection {
 public:
  // `past` is of the experiment's first trials; those behind them have just joined it. All outlive this.
  RetrySelection(const Experiment& experiment, const Plan& plan, const std::vector<RestoredTrial>& restored)
      : experiment_(experiment), plan_(plan), restored_(restored), added_(restored.size()) {}

  // With what it needs, and what that needs.
  void add(TrialIndex trial, Needs needs);
  // Without itself: it is started anyway.
  void add_needs_of(TrialIndex trial, Needs needs);
  // The blocked trials that depend on one of those that have been added.
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
