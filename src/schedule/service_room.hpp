#pragma once
// Keeps room for those that services serve: services alone could take all slots, and wait for ever for
// somebody to serve.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "combu/plan.hpp"
#include "combu/spec.hpp"

namespace combu::schedule {

// How much, of GPUs how many: of attempts that have not been given any by name.
struct Load {
  std::int64_t nano_cpus = 0;
  std::int64_t memory = 0;
  std::size_t gpus = 0;
  Load& operator+=(const Load& other);
  [[nodiscard]] bool fits(const Load& room) const;
};

class ServiceRoom {
 public:
  // `may_stay`: whose end is not waited for. `capacity`: nullopt where slots are not counted.
  ServiceRoom(const Experiment& experiment, const Plan& plan, const std::optional<Slots>& capacity,
              const std::function<bool(TrialIndex)>& may_stay);

  // Whether each of those that it serves can still run, one after another, when this one runs, too.
  [[nodiscard]] bool may_start(TrialIndex trial) const;
  void started(TrialIndex trial);
  void ended(TrialIndex trial);

 private:
  const Experiment& experiment_;
  std::optional<Load> capacity_;
  // Of what may stay: with whom it must run, and the most that one wants that these serve together.
  std::unordered_map<TrialIndex, std::map<std::vector<TrialIndex>, Load>> served_;
  std::set<TrialIndex> up_;  // run now, or will do as long as the run does
};

}  // namespace combu::schedule
