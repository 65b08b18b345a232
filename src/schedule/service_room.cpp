#include "schedule/service_room.hpp"

#include <algorithm>

namespace combu::schedule {

namespace {

Load load_of(const Trial& trial) {
  return {.nano_cpus = trial.slots.cpus.nano, .memory = trial.slots.memory.count, .gpus = trial.gpus.count};
}

// The services and the like that must run beside a trial, those of these, and so on; sorted.
std::vector<TrialIndex> company_of(TrialIndex trial, const Plan& plan,
                                   const std::function<bool(TrialIndex)>& may_stay) {
  std::vector<TrialIndex> company;
  std::vector<TrialIndex> open{trial};
  while (!open.empty()) {
    const TrialIndex next = open.back();
    open.pop_back();
    for (const Edge& need : plan.nodes[next].needs) {
      if (!may_stay(need.trial) || std::ranges::find(company, need.trial) != company.end()) continue;
      company.push_back(need.trial);
      open.push_back(need.trial);
    }
  }
  std::ranges::sort(company);
  return company;
}

}  // namespace

Load& Load::operator+=(const Load& other) {
  nano_cpus += other.nano_cpus;
  memory += other.memory;
  gpus += other.gpus;
  return *this;
}

bool Load::fits(const Load& room) const {
  return nano_cpus <= room.nano_cpus && memory <= room.memory && gpus <= room.gpus;
}

ServiceRoom::ServiceRoom(const Experiment& experiment, const Plan& plan, const std::optional<Slots>& capacity,
                         const std::function<bool(TrialIndex)>& may_stay)
    : experiment_(experiment) {
  if (!capacity) return;
  capacity_ = {
      .nano_cpus = capacity->cpus.nano, .memory = capacity->memory.count, .gpus = capacity->gpus.size()};
  for (TrialIndex trial = 0; trial < experiment.trials.size(); ++trial) {
    if (may_stay(trial)) {
      if (plan.nodes[trial].needed_by.empty()) up_.insert(trial);
      continue;
    }
    const std::vector<TrialIndex> company = company_of(trial, plan, may_stay);
    const Load load = load_of(experiment.trials[trial]);
    for (const TrialIndex one : company) {
      Load& most = served_[one][company];
      most = {.nano_cpus = std::max(most.nano_cpus, load.nano_cpus),
              .memory = std::max(most.memory, load.memory),
              .gpus = std::max(most.gpus, load.gpus)};
    }
  }
}

bool ServiceRoom::may_start(TrialIndex trial) const {
  const auto served = served_.find(trial);
  if (!capacity_ || served == served_.end()) return true;
  Load now;
  for (const TrialIndex one : up_) now += load_of(experiment_.trials[one]);
  return std::ranges::all_of(served->second, [&](const auto& group) {
    Load then = now;
    then += group.second;
    for (const TrialIndex one : group.first)
      if (!up_.contains(one)) then += load_of(experiment_.trials[one]);
    return then.fits(*capacity_);
  });
}

void ServiceRoom::started(TrialIndex trial) {
  if (served_.contains(trial)) up_.insert(trial);
}

void ServiceRoom::ended(TrialIndex trial) {
  if (served_.contains(trial)) up_.erase(trial);
}

}  // namespace combu::schedule
