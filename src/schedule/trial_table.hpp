#pragma once
// The states of the trials, the facts of their changes, and counts of trials by state. Only TrialTable
// changes a state. Lifecycle and Planner call its functions; all other parts have a const reference.

#include <array>
#include <cstddef>
#include <limits>
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

// `experiment` and `plan` must outlive this object.
class TrialTable {
 public:
  // `limits`: Engine::limits().
  TrialTable(const Experiment& experiment, const Plan& plan, const std::vector<StartLimit>& limits);

  [[nodiscard]] std::size_t size() const { return rows_.size(); }
  [[nodiscard]] const Trial& trial(TrialIndex trial) const { return experiment_.trials[trial]; }
  [[nodiscard]] const std::string& name(TrialIndex trial) const { return experiment_.trials[trial].name; }
  [[nodiscard]] std::optional<TrialIndex> find(std::string_view name) const;
  // True if the run waits for the trial's end. False for services, and for trials on which others depend only
  // with the condition `started` or `healthy`.
  [[nodiscard]] bool is_awaited(TrialIndex trial) const { return rows_[trial].is_awaited; }
  [[nodiscard]] const std::vector<TrialIndex>& services() const { return services_; }

  [[nodiscard]] TrialState state(TrialIndex trial) const { return rows_[trial].state; }
  // Returns the number of the starting or running attempt, or else of the next attempt.
  [[nodiscard]] int attempt(TrialIndex trial) const { return rows_[trial].attempt; }
  void set_attempt(TrialIndex trial, int attempt) { rows_[trial].attempt = attempt; }

  // ---- Changes without a fact: the record does not need them

  // Call this when a waiting or retrying trial enters the start queue.
  void set_ready(TrialIndex trial) { set_state(trial, TrialState::ready); }
  // Call this when a trial leaves the start queue to let other trials start, or waits again after a reset.
  void set_waiting(TrialIndex trial) { set_state(trial, TrialState::waiting); }
  // Restores the state that an earlier process left. Trials that were collecting or had ended stay `waiting`
  // until report() is called with their end.
  void restore(TrialIndex trial, const RestoredTrial& restored);

  // Call this when the engine has chosen the host of a starting attempt.
  void set_placed(TrialIndex trial);

  // ---- Changes with a fact

  // Facts get the time `now` until the next call of begin_step().
  void begin_step(Instant now) { now_ = now; }
  [[nodiscard]] Instant now() const { return now_; }
  // Moves the trial to the fact's state and adds the fact to facts(). Sets the fact's attempt and, if the
  // fact has no time, its time. No later call changes the fact.
  void report(Fact fact);
  // Returns the moment of a change: `by_engine`, limited to the interval from the trial's last fact to now().
  // Returns now() if `by_engine` is nullopt.
  [[nodiscard]] Instant time_of(TrialIndex trial, std::optional<Instant> by_engine) const;
  // Returns the facts since the last take_facts(), in the order of report().
  [[nodiscard]] const std::vector<Fact>& facts() const { return facts_; }
  [[nodiscard]] std::vector<Fact> take_facts() { return std::exchange(facts_, {}); }

  // ---- Counts of trials

  [[nodiscard]] const std::array<std::size_t, k_trial_state_count>& counts() const { return counts_; }
  [[nodiscard]] std::size_t count(TrialState state) const { return counts_[static_cast<std::size_t>(state)]; }
  // Returns the number of trials that do not run yet: waiting, ready, starting or retrying.
  [[nodiscard]] std::size_t to_start() const;
  // Returns the number of starting and running trials, services not counted.
  [[nodiscard]] std::size_t alive() const { return alive_; }
  // Returns the number of starting trials that, as far as is known, wait for a place on the engine.
  [[nodiscard]] std::size_t unplaced() const { return unplaced_; }
  // Returns the index of the trial's StartLimit, or k_unlimited.
  static constexpr std::size_t k_unlimited = std::numeric_limits<std::size_t>::max();
  [[nodiscard]] std::size_t limit_of(TrialIndex trial) const {
    return limit_of_.empty() ? k_unlimited : limit_of_[trial];
  }
  // True if fewer attempts than the limit allows are starting or running.
  [[nodiscard]] bool has_place_in(std::size_t limit) const {
    return limit == k_unlimited || limited_[limit].alive < limited_[limit].attempts_max;
  }
  // Returns the number of awaited trials (is_awaited()) that have not ended.
  [[nodiscard]] std::size_t unfinished() const { return unfinished_; }
  // Returns the number of awaited trials (is_awaited()) that are running.
  [[nodiscard]] std::size_t running_awaited() const { return running_awaited_; }
  // Returns the number of running trials that have retries.
  [[nodiscard]] std::size_t retriable() const { return retriable_; }
  // Returns the number of running trials for which the run's owner must stay (is_monitored()).
  [[nodiscard]] std::size_t monitored() const { return monitored_; }

 private:
  struct Row {
    TrialState state = TrialState::waiting;
    int attempt = 1;
    bool is_awaited = false;
    bool is_placed = false;  // set_placed() was called since the last change of the state
    Instant reported_at{};   // time of the trial's last fact
  };
  void set_state(TrialIndex trial, TrialState state);
  void count(TrialIndex trial, std::ptrdiff_t by);

  const Experiment& experiment_;
  std::vector<Row> rows_;
  std::unordered_map<std::string_view, TrialIndex> by_name_;
  std::vector<TrialIndex> services_;
  struct Limited {
    std::size_t attempts_max = 0;
    std::size_t alive = 0;  // number of starting and running attempts
  };
  std::vector<Limited> limited_;       // by limit
  std::vector<std::size_t> limit_of_;  // by trial; empty if there are no limits
  Instant now_{};
  std::vector<Fact> facts_;
  std::array<std::size_t, k_trial_state_count> counts_{};
  std::size_t unplaced_ = 0;
  std::size_t alive_ = 0;
  std::size_t unfinished_ = 0;
  std::size_t running_awaited_ = 0;
  std::size_t retriable_ = 0;
  std::size_t monitored_ = 0;
};

}  // namespace combu::schedule
