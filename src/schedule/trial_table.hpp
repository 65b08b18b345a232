#pragma once
// The states of the trials, the facts of their changes, and the counts that follow from the states. Only this
// table changes a state: Lifecycle and Planner ask for it, and the other parts have a const table.

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "combu/plan.hpp"
#include "combu/schedule.hpp"
#include "combu/spec.hpp"

namespace combu::schedule {

// `experiment` and `plan` outlive it.
class TrialTable {
 public:
  TrialTable(const Experiment& experiment, const Plan& plan);

  [[nodiscard]] std::size_t size() const { return rows_.size(); }
  [[nodiscard]] const Trial& trial(TrialIndex trial) const { return experiment_.trials[trial]; }
  [[nodiscard]] const std::string& name(TrialIndex trial) const { return experiment_.trials[trial].name; }
  [[nodiscard]] std::optional<TrialIndex> find(std::string_view name) const;
  // True if the run waits for the trial's end. It waits neither for services nor for trials that only have
  // to run or be healthy for others: those serve like a service.
  [[nodiscard]] bool is_awaited(TrialIndex trial) const { return rows_[trial].is_awaited; }
  [[nodiscard]] const std::vector<TrialIndex>& services() const { return services_; }

  [[nodiscard]] TrialState state(TrialIndex trial) const { return rows_[trial].state; }
  // The attempt that lives, or comes next.
  [[nodiscard]] int attempt(TrialIndex trial) const { return rows_[trial].attempt; }
  void set_attempt(TrialIndex trial, int attempt) { rows_[trial].attempt = attempt; }

  // ---- Changes that are not reported: the record need not know them

  // A trial that waits or retries takes its place in the start queue.
  void set_ready(TrialIndex trial) { set_state(trial, TrialState::ready); }
  // A trial leaves the start queue for the sake of others, or begins anew after a reset.
  void set_waiting(TrialIndex trial) { set_state(trial, TrialState::waiting); }
  // Goes on from where an earlier process has left the trial. One that collects or is over waits until its
  // end is reported again.
  void restore(TrialIndex trial, const RestoredTrial& restored);

  // ---- Changes that are reported: facts

  // Facts are of this time until the next call.
  void begin_step(Instant now) { now_ = now; }
  [[nodiscard]] Instant now() const { return now_; }
  // Moves the trial to the fact's state, and adds the fact to facts(), with its attempt and, unless it has
  // one, its time. The fact does not change afterwards.
  void report(Fact fact);
  // The time of a change: that of the engine's clock, limited to the time since the trial's last fact.
  [[nodiscard]] Instant time_of(TrialIndex trial, std::optional<Instant> by_engine) const;
  // The facts since the last take_facts(), in the order of their reports.
  [[nodiscard]] const std::vector<Fact>& facts() const { return facts_; }
  [[nodiscard]] std::vector<Fact> take_facts() { return std::exchange(facts_, {}); }

  // ---- Counts of trials

  [[nodiscard]] const std::array<std::size_t, k_trial_state_count>& counts() const { return counts_; }
  [[nodiscard]] std::size_t count(TrialState state) const { return counts_[static_cast<std::size_t>(state)]; }
  // Neither started nor over.
  [[nodiscard]] std::size_t to_start() const;
  // Starting and running trials that are no services.
  [[nodiscard]] std::size_t alive() const { return alive_; }
  // Awaited and not over.
  [[nodiscard]] std::size_t unfinished() const { return unfinished_; }
  // Running and awaited.
  [[nodiscard]] std::size_t running_awaited() const { return running_awaited_; }
  // Running, with retries.
  [[nodiscard]] std::size_t retriable() const { return retriable_; }
  // Running, and the run's owner must stay for them (is_monitored()).
  [[nodiscard]] std::size_t monitored() const { return monitored_; }

 private:
  struct Row {
    TrialState state = TrialState::waiting;
    int attempt = 1;
    bool is_awaited = false;
    Instant reported_at{};  // time of the last fact
  };
  void set_state(TrialIndex trial, TrialState state);
  void count(TrialIndex trial, std::ptrdiff_t by);

  const Experiment& experiment_;
  std::vector<Row> rows_;
  std::unordered_map<std::string_view, TrialIndex> by_name_;
  std::vector<TrialIndex> services_;
  Instant now_{};
  std::vector<Fact> facts_;
  std::array<std::size_t, k_trial_state_count> counts_{};
  std::size_t alive_ = 0;
  std::size_t unfinished_ = 0;
  std::size_t running_awaited_ = 0;
  std::size_t retriable_ = 0;
  std::size_t monitored_ = 0;
};

}  // namespace combu::schedule
