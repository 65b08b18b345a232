#include "schedule/slot_requests.hpp"

#include <algorithm>
#include <utility>

namespace combu::schedule {

SlotRequests::SlotRequests(const TrialTable& trials, const Plan& plan, const Holdings& holdings,
                           ServiceRoom& room, std::optional<Slots> capacity, Until until)
    : trials_(trials),
      plan_(plan),
      holdings_(holdings),
      room_(room),
      capacity_(std::move(capacity)),
      until_(until) {}

Slots SlotRequests::of(TrialIndex trial) const {
  Slots slots = trials_.trial(trial).slots;
  const auto grown = memory_.find(trial);
  if (grown != memory_.end()) slots.memory = grown->second;
  return slots;
}

void SlotRequests::grow_memory(TrialIndex trial, bool is_listed) {
  const Bytes before = of(trial).memory;
  Slots grown = of(trial);
  grown.memory.count =
      static_cast<std::int64_t>(static_cast<double>(before.count) * trials_.trial(trial).retries.grow_memory);
  if (capacity_) {
    grown.memory = std::min(grown.memory, memory_in_time(trial));
    // Without this limit, trials that keep running could for ever hold the memory that this trial and its
    // company need.
    if (is_listed && !room_.may_want(trial, grown, holdings_.left_in_time()))
      grown.memory = std::min(grown.memory, memory_now(trial));
  }
  if (grown.memory > before) memory_.insert_or_assign(trial, grown.memory);
  room_.wants(trial, of(trial));
}

std::vector<TrialIndex> SlotRequests::company(TrialIndex trial) const {
  return company_of(trial, plan_, [this](TrialIndex one) {
    return !trials_.is_awaited(one) && !is_over(trials_.state(one));
  });
}

// Returns the memory that remains when the trial's company and the lasting services hold their memory.
// Lasting services are those on which no trial depends, or all services if combu never stops services.
Bytes SlotRequests::memory_in_time(TrialIndex trial) const {
  Bytes left = capacity_->memory;
  const std::vector<TrialIndex> beside = company(trial);
  for (const TrialIndex one : beside) left.count -= of(one).memory.count;
  for (const TrialIndex one : trials_.services()) {
    const bool stays = until_ == Until::started || plan_.nodes[one].needed_by.empty();
    if (one != trial && stays && !std::ranges::binary_search(beside, one) && !is_over(trials_.state(one)))
      left.count -= of(one).memory.count;
  }
  return left;
}

// Returns the memory that remains while only two kinds of trials hold memory: the trial's company, and
// running trials that may keep running.
Bytes SlotRequests::memory_now(TrialIndex trial) const {
  Bytes left = holdings_.left_in_time().memory;
  for (const TrialIndex one : company(trial))
    left.count -= of(one).memory.count - holdings_.held_by(one).memory.count;
  return left;
}

}  // namespace combu::schedule
