#pragma once
// The slots that the next attempt of each trial requests. Attempts that ran out of memory increase the
// request.

#include <optional>
#include <unordered_map>
#include <vector>

#include "combu/plan.hpp"
#include "combu/schedule.hpp"
#include "schedule/holdings.hpp"
#include "schedule/service_room.hpp"
#include "schedule/trial_table.hpp"

namespace combu::schedule {

// The referenced objects must outlive this object.
class SlotRequests {
 public:
  // `capacity`: nullopt if slots are not counted.
  SlotRequests(const TrialTable& trials, const Plan& plan, const Holdings& holdings, ServiceRoom& room,
               std::optional<Slots> capacity, Until until);

  // Returns the request without ids of GPUs.
  [[nodiscard]] Slots of(TrialIndex trial) const;
  // Multiplies the memory by Retries::grow_memory, limited to the memory that can become free beside the
  // trials that may stay. `is_listed`: the engine has reported which attempts run, so that ServiceRoom knows
  // them.
  void grow_memory(TrialIndex trial, bool is_listed);
  void reset(TrialIndex trial) { memory_.erase(trial); }

 private:
  // Returns the trials that must run beside this one, and stay as long as it runs; sorted.
  [[nodiscard]] std::vector<TrialIndex> company(TrialIndex trial) const;
  [[nodiscard]] Bytes memory_in_time(TrialIndex trial) const;
  [[nodiscard]] Bytes memory_now(TrialIndex trial) const;

  const TrialTable& trials_;
  const Plan& plan_;
  const Holdings& holdings_;
  ServiceRoom& room_;
  std::optional<Slots> capacity_;
  Until until_;
  std::unordered_map<TrialIndex, Bytes> memory_;  // requests that are above the file's
};

}  // namespace combu::schedule
