#pragma once
// Keeps room for those that services serve: services alone could take all slots, and wait for ever for
// somebody to serve.

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

// Those that must run beside a trial, those that must run beside these, and so on; sorted. `stays`: whether
// one runs on when it has been started.
[[nodiscard]] std::vector<TrialIndex> company_of(TrialIndex trial, const Plan& plan,
                                                 const std::function<bool(TrialIndex)>& stays);

class ServiceRoom {
 public:
  // How far a look goes: with all that is up as it is, or until those have ended that nobody needs then.
  enum class Horizon { now, in_turn };

  // `capacity`: nullopt where slots are not counted. `until`: started when no service is ever stopped.
  ServiceRoom(const Experiment& experiment, const Plan& plan, const std::optional<Slots>& capacity,
              std::span<const Gpu> gpus, Until until);

  // Whether all that services serve can still run, in some order, when this one runs, too. `left`: what is
  // free when the work that runs has ended. `gpus`: those that it would get; empty: any.
  [[nodiscard]] bool may_start(TrialIndex service, const Slots& left, Horizon horizon,
                               const std::vector<std::string>& gpus = {}) const;
  // Whether they can when this trial wants so much.
  [[nodiscard]] bool may_want(TrialIndex trial, const Slots& slots, const Slots& left) const;

  void started(TrialIndex service, const Slots& slots);
  void ended(TrialIndex service);
  void over(TrialIndex trial);
  void wants(TrialIndex trial, const Slots& slots);
  // Rises when there may be more room.
  [[nodiscard]] std::size_t changes() const { return changes_; }

  // A trial for which there is no room beside services that others still need, in whatever order; before
  // anything has been started.
  struct Stuck {
    TrialIndex trial;
    std::vector<TrialIndex> beside;
  };
  [[nodiscard]] std::optional<Stuck> stuck() const;

 private:
  class Trying;
  struct Need {
    Slots slots;
    GpuWish gpus;
    TrialIndex trial;
  };
  // The trials that have the same company.
  struct Group {
    std::vector<TrialIndex> company;
    std::vector<Need> needs;  // of which none holds another
    std::size_t left = 0;     // trials that are not over
  };
  static constexpr std::size_t k_none = static_cast<std::size_t>(-1);

  [[nodiscard]] bool is_standing(TrialIndex service) const { return standing_.contains(service); }
  [[nodiscard]] Slots slots_of(TrialIndex service) const;
  [[nodiscard]] std::vector<std::size_t> reached_from(std::vector<TrialIndex> services,
                                                      Horizon horizon) const;
  void add_need(Group& group, Need need);
  void find_standing(const Plan& plan);

  const Experiment& experiment_;
  std::vector<Gpu> gpus_;
  std::optional<Slots> capacity_;
  bool are_stopped_;
  std::vector<Group> groups_;
  std::vector<std::size_t> group_of_;                                // by trial; empty: there are no services
  std::unordered_map<TrialIndex, std::vector<std::size_t>> serves_;  // the groups of a service
  std::unordered_map<TrialIndex, std::size_t> groups_left_;          // of a service, that are not over
  std::unordered_set<TrialIndex> standing_;                          // they run as long as the work does
  std::map<TrialIndex, Slots> up_;                                   // services that run, and what they hold
  std::unordered_set<TrialIndex> over_;                              // services that never run again
  std::unordered_map<TrialIndex, Slots> grown_;                      // what services want by now
  std::size_t changes_ = 0;
};

}  // namespace combu::schedule
