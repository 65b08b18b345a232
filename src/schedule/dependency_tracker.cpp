#include "schedule/dependency_tracker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace combu::schedule {
namespace {

std::string_view unmet_text(Condition condition) {
  switch (condition) {
    case Condition::started:
      return "was not started";
    case Condition::healthy:
      return "did not become healthy";
    case Condition::succeeded:
      return "did not succeed";
    case Condition::finished:
      return "did not finish";
  }
  return "";
}

}  // namespace

DependencyTracker::DependencyTracker(const TrialTable& trials, const Plan& plan)
    : trials_(trials), plan_(plan), rows_(trials.size()) {
  for (TrialIndex trial = 0; trial < rows_.size(); ++trial) {
    rows_[trial].unmet = static_cast<std::uint32_t>(plan.nodes[trial].needs.size());
    rows_[trial].users = static_cast<std::uint32_t>(plan.nodes[trial].needed_by.size());
  }
}

bool DependencyTracker::set_started(TrialIndex trial) {
  return !std::exchange(rows_[trial].was_started, true);
}

bool DependencyTracker::set_healthy(TrialIndex trial) {
  return !std::exchange(rows_[trial].was_healthy, true);
}

void DependencyTracker::forget_attempts(TrialIndex trial) {
  rows_[trial] = {.unmet = rows_[trial].unmet, .users = rows_[trial].users};
}

std::vector<TrialIndex> DependencyTracker::meet(TrialIndex trial, Condition condition) {
  std::vector<TrialIndex> ready;
  for (const Edge& edge : plan_.nodes[trial].needed_by) {
    if (edge.condition != condition) continue;
    if (--rows_[edge.trial].unmet == 0 && trials_.state(edge.trial) == TrialState::waiting)
      ready.push_back(edge.trial);
  }
  return ready;
}

std::vector<TrialIndex> DependencyTracker::waiting_for(TrialIndex trial, Condition condition) const {
  std::vector<TrialIndex> waiting;
  for (const Edge& edge : plan_.nodes[trial].needed_by)
    if (edge.condition == condition && trials_.state(edge.trial) == TrialState::waiting)
      waiting.push_back(edge.trial);
  return waiting;
}

std::vector<Edge> DependencyTracker::unmet(TrialIndex trial) const {
  std::vector<Edge> unmet;
  std::ranges::copy_if(plan_.nodes[trial].needs, std::back_inserter(unmet),
                       [this](const Edge& need) { return !is_met(need); });
  return unmet;
}

bool DependencyTracker::is_met(const Edge& need) const {
  const TrialState state = trials_.state(need.trial);
  const Row& row = rows_[need.trial];
  if (state == TrialState::skipped) return true;
  switch (need.condition) {
    case Condition::started:
      return row.was_started;
    case Condition::healthy:
      return row.was_healthy;
    case Condition::succeeded:
      return state == TrialState::succeeded;
    case Condition::finished:
      return is_over(state);
  }
  return false;
}

std::optional<Edge> DependencyTracker::unreachable(TrialIndex trial) const {
  const std::vector<Edge>& needs = plan_.nodes[trial].needs;
  const auto never = std::ranges::find_if(needs, [this](const Edge& need) { return is_unreachable(need); });
  return never == needs.end() ? std::nullopt : std::optional(*never);
}

bool DependencyTracker::is_unreachable(const Edge& need) const {
  const TrialState state = trials_.state(need.trial);
  const Row& row = rows_[need.trial];
  switch (need.condition) {
    case Condition::started:
      return is_over(state) && !row.was_started && state != TrialState::skipped;
    case Condition::healthy:
      return !row.was_healthy && (is_over(state) || row.is_unhealthy) && state != TrialState::skipped;
    case Condition::succeeded:
      return is_over(state) && !has_succeeded(state);
    case Condition::finished:
      return false;
  }
  return false;
}

std::vector<TrialIndex> DependencyTracker::release(TrialIndex trial) {
  std::vector<TrialIndex> unused;
  for (const Edge& need : plan_.nodes[trial].needs)
    if (--rows_[need.trial].users == 0) unused.push_back(need.trial);
  return unused;
}

TrialIndex DependencyTracker::block(TrialIndex trial, TrialIndex need) {
  const auto found = roots_.find(need);
  const TrialIndex root = found == roots_.end() ? need : found->second;
  roots_.emplace(trial, root);
  return root;
}

std::string DependencyTracker::reason(const Edge& need) const {
  const auto found = roots_.find(need.trial);
  return found == roots_.end()
             ? fmt::format("depends on `{}`, which {}", trials_.name(need.trial), unmet_text(need.condition))
             : fmt::format("depends on `{}`, which is blocked by `{}`", trials_.name(need.trial),
                           trials_.name(found->second));
}

}  // namespace combu::schedule
