#pragma once
// Tracks which dependencies are met, and which trials are blocked.

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "combu/plan.hpp"
#include "schedule/trial_table.hpp"

namespace combu::schedule {

// `trials` and `plan` must outlive this object.
class DependencyTracker {
 public:
  DependencyTracker(const TrialTable& trials, const Plan& plan);

  // ---- Conditions of one trial

  // Records that an attempt of the trial has begun to run. Returns true on the first call for the trial.
  bool set_started(TrialIndex trial);
  // Records that the trial's health check has passed. Returns true on the first call for the trial.
  bool set_healthy(TrialIndex trial);
  // Records that the trial's health check failed and has never passed.
  void set_unhealthy(TrialIndex trial) { rows_[trial].is_unhealthy = true; }
  [[nodiscard]] bool was_started(TrialIndex trial) const { return rows_[trial].was_started; }
  [[nodiscard]] bool was_healthy(TrialIndex trial) const { return rows_[trial].was_healthy; }
  // Forgets the conditions that earlier attempts met: the next attempt counts as the first.
  void forget_attempts(TrialIndex trial);

  // ---- Its dependents

  // Records that `trial` meets `condition`. Returns the waiting trials whose dependencies are now all met.
  [[nodiscard]] std::vector<TrialIndex> meet(TrialIndex trial, Condition condition);
  // Returns the waiting trials that depend on this condition of `trial`.
  [[nodiscard]] std::vector<TrialIndex> waiting_for(TrialIndex trial, Condition condition) const;
  // True if every trial that depends on `trial` has ended, or if no trial depends on `trial`.
  [[nodiscard]] bool is_unused(TrialIndex trial) const { return rows_[trial].users == 0; }

  // ---- Its dependencies

  [[nodiscard]] bool are_met(TrialIndex trial) const { return rows_[trial].unmet == 0; }
  // Returns the dependencies that are not met.
  [[nodiscard]] std::vector<Edge> unmet(TrialIndex trial) const;
  // Returns the first dependency that can never be met; nullopt if there is none.
  [[nodiscard]] std::optional<Edge> unreachable(TrialIndex trial) const;
  // Call this when the trial has ended. Returns the dependencies of the trial that no other trial still
  // needs.
  [[nodiscard]] std::vector<TrialIndex> release(TrialIndex trial);

  // ---- Blocked trials

  // Records that `trial` is blocked by `need`. Returns the root: the trial whose end began the chain of
  // blocked trials.
  TrialIndex block(TrialIndex trial, TrialIndex need);
  void set_root(TrialIndex trial, TrialIndex root) { roots_.emplace(trial, root); }
  // Returns text for users that says why a trial with the dependency `need` is blocked. Precondition: `need`
  // can never be met.
  [[nodiscard]] std::string reason(const Edge& need) const;

 private:
  struct Row {
    std::uint32_t unmet = 0;  // number of the trial's dependencies that are not met
    std::uint32_t users = 0;  // number of trials that depend on the trial and have not ended
    bool was_started = false;
    bool was_healthy = false;
    bool is_unhealthy = false;
  };
  [[nodiscard]] bool is_met(const Edge& need) const;
  [[nodiscard]] bool is_unreachable(const Edge& need) const;

  const TrialTable& trials_;
  const Plan& plan_;
  std::vector<Row> rows_;
  std::unordered_map<TrialIndex, TrialIndex> roots_;
};

}  // namespace combu::schedule
