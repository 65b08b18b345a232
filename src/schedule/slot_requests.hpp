#pragma once
// The slots that the next attempt of each trial requests. After an attempt that ran out of memory, the trial
// requests more memory.

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
  // `capacity`: slots of the engine; nullopt if slots are not counted.
  SlotRequests(const TrialTable& trials, const Plan& plan, const Holdings& holdings, ServiceRoom& room,
               std::optional<Slots> capacity, Until until);

  // Returns the slots that the trial requests, without ids of GPUs.
  [[nodiscard]] Slots of(TrialIndex trial) const;
  // Multiplies the requested memory by Retries::grow_memory. The result is limited to the memory that remains
  // while trials that may keep running, such as services, hold their memory. `is_listed`: true if the engine
  // has listed the running attempts, so that ServiceRoom knows these attempts.
  void grow_memory(TrialIndex trial, bool is_listed);
  void reset(TrialIndex trial) { memory_.erase(trial); }

 private:
  // Returns the trials that must run as long as `trial` runs; sorted.
  [[nodiscard]] std::vector<TrialIndex> company(TrialIndex trial) const;
  [[nodiscard]] Bytes memory_in_time(TrialIndex trial) const;
  [[nodiscard]] Bytes memory_now(TrialIndex trial) const;

  const TrialTable& trials_;
  const Plan& plan_;
  const Holdings& holdings_;
  ServiceRoom& room_;
  std::optional<Slots> capacity_;
  Until until_;
  std::unordered_map<TrialIndex, Bytes> memory_;  // by trial: requested memory, if larger than in the file
};

}  // namespace combu::schedule
