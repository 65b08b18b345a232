#pragma once
// Keeps slots free for the trials that depend on services. Otherwise services could take all slots, and these
// trials could never start.

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "combu/engine.hpp"
#include "combu/plan.hpp"
#include "combu/schedule.hpp"
#include "combu/spec.hpp"

namespace combu::schedule {

// Returns the company of `trial`, sorted: the trials that must run at the same time as `trial`. The company
// consists of the dependencies for which `stays` returns true, and recursively of their dependencies of this
// kind. `stays` returns true if a trial keeps running once it has been started.
[[nodiscard]] std::vector<TrialIndex> company_of(TrialIndex trial, const Plan& plan,
                                                 const std::function<bool(TrialIndex)>& stays);

class ServiceRoom {
 public:
  // `now` assumes that running services keep their slots. `in_turn` assumes that running services free their
  // slots when no trial needs these services.
  enum class Horizon { now, in_turn };

  // `capacity`: slots of the engine; nullopt if slots are not counted. `until`: with Until::started no
  // service is ever stopped.
  ServiceRoom(const Experiment& experiment, const Plan& plan, const std::optional<Slots>& capacity,
              std::span<const Gpu> gpus, Until until);

  // True if, after a start of `service`, all trials that depend on services can still run in some order.
  // `left`: slots that are free once all running trials except services have ended. `gpus`: GPUs that the
  // service would get; empty: any GPUs.
  [[nodiscard]] bool may_start(TrialIndex service, const Slots& left, Horizon horizon,
                               const std::vector<std::string>& gpus = {}) const;
  // True if all trials that depend on services can still run if `trial` requests `slots`.
  [[nodiscard]] bool may_want(TrialIndex trial, const Slots& slots, const Slots& left) const;

  void started(TrialIndex service, const Slots& slots);
  void ended(TrialIndex service);
  void over(TrialIndex trial);
  void wants(TrialIndex trial, const Slots& slots);
  // Returns a number that rises whenever more slots may have become available.
  [[nodiscard]] std::size_t changes() const { return changes_; }

  // A trial that can never run. The services in `beside` leave too few slots for this trial, and in every
  // order of starts, other trials still need these services.
  struct Stuck {
    TrialIndex trial;
    std::vector<TrialIndex> beside;
  };
  [[nodiscard]] std::optional<Stuck> stuck() const;

 private:
  class Trying;
  struct Need {
    Slots slots;
    GpuRequest gpus;
    TrialIndex trial;
  };
  // Trials with the same company: `company` holds the services that must run at the same time as these
  // trials.
  struct Group {
    std::vector<TrialIndex> company;
    // The slots that the group's trials need. Omits slots that fit into other slots of this list.
    std::vector<Need> needs;
    std::size_t left = 0;  // number of trials of the group that have not ended
  };
  static constexpr std::size_t k_none = static_cast<std::size_t>(-1);

  [[nodiscard]] bool is_permanent(TrialIndex service) const { return permanent_.contains(service); }
  [[nodiscard]] Slots slots_of(TrialIndex service) const;
  [[nodiscard]] std::vector<std::size_t> reached_from(std::vector<TrialIndex> services,
                                                      Horizon horizon) const;
  void add_need(Group& group, Need need);
  void find_permanent(const Plan& plan);

  const Experiment& experiment_;
  std::vector<Gpu> gpus_;
  std::optional<Slots> capacity_;
  bool are_stopped_;
  std::vector<Group> groups_;
  // Index of each trial's group; empty if the run has no services that hold slots.
  std::vector<std::size_t> group_of_;
  // By service: the groups that need the service.
  std::unordered_map<TrialIndex, std::vector<std::size_t>> serves_;
  // By service: the number of groups that need the service and have trials that have not ended.
  std::unordered_map<TrialIndex, std::size_t> groups_left_;
  std::unordered_set<TrialIndex> permanent_;  // services that run until the run's work is done
  std::map<TrialIndex, Slots> up_;            // running services, and the slots that they hold
  std::unordered_set<TrialIndex> over_;       // services that will not run again
  // By service: the slots that it requests, if they are larger than in the file.
  std::unordered_map<TrialIndex, Slots> grown_;
  std::size_t changes_ = 0;
};

}  // namespace combu::schedule
