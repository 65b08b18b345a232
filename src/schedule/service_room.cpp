#include "schedule/service_room.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "schedule/gpus.hpp"

namespace combu::schedule {

std::vector<TrialIndex> company_of(TrialIndex trial, const Plan& plan,
                                   const std::function<bool(TrialIndex)>& stays) {
  std::vector<TrialIndex> company;
  std::vector<TrialIndex> open{trial};
  while (!open.empty()) {
    const TrialIndex next = open.back();
    open.pop_back();
    for (const Edge& need : plan.nodes[next].needs) {
      if (!stays(need.trial) || std::ranges::find(company, need.trial) != company.end()) continue;
      company.push_back(need.trial);
      open.push_back(need.trial);
    }
  }
  std::ranges::sort(company);
  return company;
}

// Simulates one order in which the remaining groups of trials can run.
class ServiceRoom::Trying {
 public:
  // Assumes that the services in permanent_ and the service `first`, which gets `gpus`, run from the
  // beginning.
  Trying(const ServiceRoom& room, Slots left, std::optional<TrialIndex> first,
         const std::vector<std::string>& gpus)
      : room_(room), left_(std::move(left)) {
    if (first) fit_ = start(*first, gpus);
    for (const TrialIndex one : room.permanent_)
      if (is_missing(one)) fit_ &= start(one, {});
  }

  void add_need(std::size_t group, Need need) { more_.emplace(group, std::move(need)); }

  // True if all groups of trials can finish. Groups run in the given order, with one exception: groups whose
  // services all run already come first, because such groups only free slots.
  bool serve(std::vector<std::size_t> groups) {
    open_ = std::move(groups);
    std::size_t before = 0;
    do {
      before = open_.size();
      serve_each(false);
      if (open_.size() == before) serve_each(true);
    } while (!open_.empty() && open_.size() < before);
    return fit_ && open_.empty();
  }

  [[nodiscard]] const std::vector<std::size_t>& open() const { return open_; }
  [[nodiscard]] std::vector<TrialIndex> up() const {
    std::vector<TrialIndex> up;
    up.reserve(brought_.size());
    for (const auto& [service, slots] : brought_) up.push_back(service);
    return up;
  }

 private:
  [[nodiscard]] bool is_up(TrialIndex service) const {
    return room_.up_.contains(service) || brought_.contains(service);
  }
  [[nodiscard]] bool is_missing(TrialIndex service) const {
    return !is_up(service) && !room_.over_.contains(service);
  }
  [[nodiscard]] const GpuRequest& request_of(TrialIndex service) const {
    return *room_.experiment_.trials[service].gpus;
  }

  // Starts the service. If `gpus` is empty, chooses GPUs so that enough GPUs are left for the trials that
  // depend on the service.
  bool start(TrialIndex service, std::vector<std::string> gpus) {
    Slots slots = room_.slots_of(service);
    if (!slots.fit(left_)) return false;
    const GpuRequest& request = request_of(service);
    if (!request.empty() && gpus.empty()) {
      const auto chosen =
          choose(request, room_.gpus_, left_.gpus, {},
                 [&](const std::vector<std::string>& ids) { return leave_enough(service, ids); });
      if (!chosen) return false;
      gpus = *chosen;
    }
    slots.gpus = std::move(gpus);
    left_ -= slots;
    brought_.emplace(service, std::move(slots));
    return true;
  }

  [[nodiscard]] bool leave_enough(TrialIndex service, const std::vector<std::string>& gpus) const {
    return std::ranges::all_of(room_.serves_.at(service), [&](std::size_t number) {
      const Group& group = room_.groups_[number];
      if (group.left == 0 || served_.contains(number)) return true;
      Slots others{.cpus = {}, .memory = {}, .gpus = room_.capacity_->gpus};
      others -= {.cpus = {}, .memory = {}, .gpus = gpus};
      std::vector<const GpuRequest*> requests;
      const auto beside = [&](TrialIndex one) {
        if (is_missing(one) && one != service) requests.push_back(&request_of(one));
        if (is_up(one)) others -= {.cpus = {}, .memory = {}, .gpus = slots_of_up(one).gpus};
      };
      std::ranges::for_each(group.company, beside);
      std::ranges::for_each(room_.permanent_, beside);
      return std::ranges::all_of(group.needs, [&](const Need& need) {
        requests.push_back(&need.gpus);
        const bool match = can_match(requests, room_.gpus_, others.gpus);
        requests.pop_back();
        return match;
      });
    });
  }

  [[nodiscard]] const Slots& slots_of_up(TrialIndex service) const {
    const auto brought = brought_.find(service);
    return brought == brought_.end() ? room_.up_.at(service) : brought->second;
  }

  // Frees the slots of a service that no group needs any more.
  void drop(TrialIndex service) {
    if (!room_.are_stopped_ || !is_up(service)) return;
    left_ += slots_of_up(service);
    brought_.erase(service);
  }

  void serve_each(bool may_bring) {
    std::vector<std::size_t> still;
    for (const std::size_t group : open_)
      if (!served_.contains(group) && !try_serve(group, may_bring)) still.push_back(group);
    open_ = std::move(still);
  }

  bool try_serve(std::size_t number, bool may_bring) {
    const Group& group = room_.groups_[number];
    std::vector<TrialIndex> missing;
    for (const TrialIndex one : group.company)
      if (is_missing(one)) missing.push_back(one);
    if (!may_bring && !missing.empty()) return false;
    const bool all_up = std::ranges::all_of(missing, [this](TrialIndex one) { return start(one, {}); });
    if (!all_up || !fits(number)) {
      for (const TrialIndex one : missing)
        if (brought_.contains(one)) left_ += brought_.extract(one).mapped();
      return false;
    }
    end(number);
    for (const TrialIndex one : missing)
      for (const std::size_t other : room_.serves_.at(one))
        if (room_.groups_[other].left > 0 && !served_.contains(other)) (void)try_serve(other, false);
    return true;
  }

  void end(std::size_t number) {
    served_.insert(number);
    for (const TrialIndex one : room_.groups_[number].company) {
      std::size_t& left = users_.try_emplace(one, room_.groups_left_.at(one)).first->second;
      if (--left == 0) drop(one);
    }
  }

  [[nodiscard]] bool fits(std::size_t number) const {
    const auto fits_now = [this](const Need& need) {
      return need.slots.fit(left_) && can_match({&need.gpus}, room_.gpus_, left_.gpus);
    };
    const auto added = more_.find(number);
    return std::ranges::all_of(room_.groups_[number].needs, fits_now) &&
           (added == more_.end() || fits_now(added->second));
  }

  const ServiceRoom& room_;
  Slots left_;
  bool fit_ = true;
  std::map<TrialIndex, Slots> brought_;
  std::unordered_map<TrialIndex, std::size_t> users_;
  std::unordered_set<std::size_t> served_;
  std::vector<std::size_t> open_;
  std::unordered_map<std::size_t, Need> more_;
};

ServiceRoom::ServiceRoom(const Experiment& experiment, const Plan& plan, const std::optional<Slots>& capacity,
                         std::span<const Gpu> gpus, Until until)
    : experiment_(experiment),
      gpus_(gpus.begin(), gpus.end()),
      capacity_(capacity),
      are_stopped_(until == Until::ended) {
  const auto holds = [&](TrialIndex trial) {
    const Trial& it = experiment.trials[trial];
    return it.service && !(it.slots.empty() && !it.gpus);
  };
  const auto is_service = [&](TrialIndex trial) { return experiment.trials[trial].service; };
  std::vector<TrialIndex> trials(experiment.trials.size());
  std::iota(trials.begin(), trials.end(), 0);
  if (!capacity || std::ranges::none_of(trials, holds)) return;
  find_permanent(plan);
  group_of_.assign(trials.size(), k_none);
  std::map<std::vector<TrialIndex>, std::size_t> number_of;
  for (const TrialIndex trial : trials) {
    if (is_service(trial)) continue;
    std::vector<TrialIndex> company = company_of(trial, plan, is_service);
    std::erase_if(company, [&](TrialIndex one) { return !holds(one) || is_permanent(one); });
    if (company.empty() && permanent_.empty()) continue;
    const auto [at, is_new] = number_of.try_emplace(company, groups_.size());
    if (is_new) groups_.push_back({.company = std::move(company), .needs = {}});
    group_of_[trial] = at->second;
    Group& group = groups_[at->second];
    ++group.left;
    const Trial& it = experiment.trials[trial];
    add_need(group, {.slots = it.slots, .gpus = *it.gpus, .trial = trial});
  }
  for (std::size_t number = 0; number < groups_.size(); ++number) {
    for (const TrialIndex one : groups_[number].company) serves_[one].push_back(number);
    for (const TrialIndex one : permanent_) serves_[one].push_back(number);
  }
  for (const auto& [service, groups] : serves_) groups_left_[service] = groups.size();
}

// Finds the services on which no trial depends, and the services that these services need.
void ServiceRoom::find_permanent(const Plan& plan) {
  const auto is_service = [&](TrialIndex trial) { return experiment_.trials[trial].service; };
  for (TrialIndex trial = 0; trial < experiment_.trials.size(); ++trial) {
    if (!is_service(trial) || !plan.nodes[trial].needed_by.empty()) continue;
    permanent_.insert(trial);
    for (const TrialIndex one : company_of(trial, plan, is_service)) permanent_.insert(one);
  }
}

void ServiceRoom::add_need(Group& group, Need need) {
  const auto holds = [](const Need& one, const Need& other) {
    return other.slots.fit(one.slots) && (other.gpus.empty() || other.gpus == one.gpus);
  };
  if (std::ranges::any_of(group.needs, [&](const Need& one) { return holds(one, need); })) return;
  std::erase_if(group.needs, [&](const Need& one) { return holds(need, one); });
  group.needs.push_back(std::move(need));
}

Slots ServiceRoom::slots_of(TrialIndex service) const {
  const auto grown = grown_.find(service);
  return grown == grown_.end() ? experiment_.trials[service].slots : grown->second;
}

// Returns the groups that need one of `services`, then the groups that share another service with a returned
// group, and so on. With Horizon::now, the search does not continue with the groups of running services.
std::vector<std::size_t> ServiceRoom::reached_from(std::vector<TrialIndex> services, Horizon horizon) const {
  std::unordered_set<TrialIndex> seen(services.begin(), services.end());
  std::unordered_set<std::size_t> reached;
  while (!services.empty()) {
    const auto serves = serves_.find(services.back());
    services.pop_back();
    if (serves == serves_.end()) continue;
    for (const std::size_t number : serves->second) {
      if (groups_[number].left == 0 || !reached.insert(number).second) continue;
      for (const TrialIndex one : groups_[number].company)
        if (!over_.contains(one) && (horizon == Horizon::in_turn || !up_.contains(one)) &&
            seen.insert(one).second)
          services.push_back(one);
    }
  }
  std::vector<std::size_t> groups(reached.begin(), reached.end());
  std::ranges::sort(groups);
  return groups;
}

bool ServiceRoom::may_start(TrialIndex service, const Slots& left, Horizon horizon,
                            const std::vector<std::string>& gpus) const {
  if (!serves_.contains(service)) return true;
  std::vector<TrialIndex> from{service};
  if (horizon == Horizon::in_turn)
    for (const auto& [one, slots] : up_)
      if (!is_permanent(one)) from.push_back(one);
  return Trying(*this, left, service, gpus).serve(reached_from(std::move(from), horizon));
}

bool ServiceRoom::may_want(TrialIndex trial, const Slots& slots, const Slots& left) const {
  const std::size_t number = group_of_.empty() ? k_none : group_of_[trial];
  if (number == k_none) return slots.fit(left);
  std::vector<TrialIndex> from = groups_[number].company;
  for (const auto& [one, held] : up_)
    if (!is_permanent(one)) from.push_back(one);
  std::vector<std::size_t> groups = reached_from(std::move(from), Horizon::in_turn);
  if (groups_[number].company.empty()) groups.push_back(number);
  Trying trying(*this, left, std::nullopt, {});
  trying.add_need(number, {.slots = slots, .gpus = *experiment_.trials[trial].gpus, .trial = trial});
  return trying.serve(std::move(groups));
}

void ServiceRoom::started(TrialIndex service, const Slots& slots) {
  if (serves_.contains(service)) up_.insert_or_assign(service, slots);
}

void ServiceRoom::ended(TrialIndex service) {
  up_.erase(service);
}

void ServiceRoom::over(TrialIndex trial) {
  if (group_of_.empty()) return;
  if (serves_.contains(trial) && over_.insert(trial).second) ++changes_;
  const std::size_t number = group_of_[trial];
  if (number == k_none || --groups_[number].left > 0) return;
  ++changes_;
  for (const TrialIndex one : groups_[number].company) --groups_left_.at(one);
}

void ServiceRoom::wants(TrialIndex trial, const Slots& slots) {
  if (group_of_.empty()) return;
  if (serves_.contains(trial)) grown_.insert_or_assign(trial, slots);
  if (const std::size_t number = group_of_[trial]; number != k_none)
    add_need(groups_[number], {.slots = slots, .gpus = *experiment_.trials[trial].gpus, .trial = trial});
}

std::optional<ServiceRoom::Stuck> ServiceRoom::stuck() const {
  if (!capacity_) return std::nullopt;
  std::unordered_set<std::size_t> seen;
  for (std::size_t number = 0; number < groups_.size(); ++number) {
    if (seen.contains(number)) continue;
    std::vector<std::size_t> groups = reached_from(groups_[number].company, Horizon::in_turn);
    if (groups.empty()) groups.push_back(number);
    seen.insert(groups.begin(), groups.end());
    Trying trying(*this, *capacity_, std::nullopt, {});
    if (trying.serve(std::move(groups))) continue;
    const Group& group = groups_[trying.open().empty() ? number : trying.open().front()];
    Stuck stuck{.trial = group.needs.front().trial, .beside = trying.up()};
    for (const TrialIndex one : group.company)
      if (std::ranges::find(stuck.beside, one) == stuck.beside.end()) stuck.beside.push_back(one);
    return stuck;
  }
  return std::nullopt;
}

}  // namespace combu::schedule
