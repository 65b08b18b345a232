#include "schedule/trial_table.hpp"

#include <algorithm>
#include <utility>

namespace combu::schedule {
namespace {

bool serves_only(const Plan::Node& node) {
  return !node.needed_by.empty() && std::ranges::all_of(node.needed_by, [](const Edge& edge) {
    return edge.condition == Condition::started || edge.condition == Condition::healthy;
  });
}

}  // namespace

TrialTable::TrialTable(const Experiment& experiment, const Plan& plan, const std::vector<StartLimit>& limits)
    : experiment_(experiment), rows_(experiment.trials.size()) {
  if (!limits.empty()) limit_of_.assign(rows_.size(), k_unlimited);
  for (const StartLimit& limit : limits) {
    for (const std::size_t trial : limit.trials) limit_of_[trial] = limited_.size();
    limited_.push_back({.attempts_max = limit.attempts_max});
  }
  by_name_.reserve(rows_.size());
  for (TrialIndex trial = 0; trial < rows_.size(); ++trial) {
    const Trial& it = experiment.trials[trial];
    by_name_.emplace(it.name, trial);
    rows_[trial].is_awaited = !it.service && !serves_only(plan.nodes[trial]);
    if (it.service) services_.push_back(trial);
    count(trial, 1);
  }
}

std::optional<TrialIndex> TrialTable::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? std::nullopt : std::optional(found->second);
}

void TrialTable::set_state(TrialIndex trial, TrialState state) {
  count(trial, -1);
  rows_[trial].state = state;
  rows_[trial].is_placed = false;
  count(trial, 1);
}

void TrialTable::set_placed(TrialIndex trial) {
  count(trial, -1);
  rows_[trial].is_placed = true;
  count(trial, 1);
}

void TrialTable::restore(TrialIndex trial, const RestoredTrial& restored) {
  rows_[trial].attempt = restored.attempt;
  if (is_alive(restored.state)) {
    set_state(trial, restored.state);
    rows_[trial].reported_at = restored.ran_at.value_or(Instant{});
  } else if (restored.state == TrialState::retrying || restored.state == TrialState::ready) {
    set_state(trial, TrialState::retrying);
  }
}

void TrialTable::count(TrialIndex trial, std::ptrdiff_t by) {
  const Row& row = rows_[trial];
  const Trial& it = experiment_.trials[trial];
  const auto add = static_cast<std::size_t>(by);
  counts_[static_cast<std::size_t>(row.state)] += add;
  if (row.state == TrialState::starting && !row.is_placed) unplaced_ += add;
  if (row.is_awaited && !is_over(row.state)) unfinished_ += add;
  if (!it.service && is_alive(row.state)) alive_ += add;
  if (is_alive(row.state) && limit_of(trial) != k_unlimited) limited_[limit_of(trial)].alive += add;
  if (row.state != TrialState::running) return;
  if (row.is_awaited) running_awaited_ += add;
  if (it.retries.max > 0) retriable_ += add;
  // Retries of a service alone do not require the owner to stay.
  const bool has_limit = it.timeout > Seconds(0) || experiment_.deadline > Seconds(0);
  if (it.service ? has_limit : is_monitored(experiment_, it)) monitored_ += add;
}

void TrialTable::report(Fact fact) {
  Row& row = rows_[fact.trial];
  if (row.state != fact.state) set_state(fact.trial, fact.state);
  fact.attempt = row.attempt;
  if (fact.at == Instant{}) fact.at = now_;
  // A fact about a stop does not set reported_at. The attempt may have ended before the stop, so the fact
  // about its end may have an earlier time.
  if (!reports_stop(fact)) row.reported_at = fact.at;
  facts_.push_back(std::move(fact));
}

Instant TrialTable::time_of(TrialIndex trial, std::optional<Instant> by_engine) const {
  return by_engine ? std::clamp(*by_engine, std::min(rows_[trial].reported_at, now_), now_) : now_;
}

std::size_t TrialTable::to_start() const {
  return count(TrialState::waiting) + count(TrialState::ready) + count(TrialState::starting) +
         count(TrialState::retrying);
}

}  // namespace combu::schedule
