#include "schedule/holdings.hpp"

#include <algorithm>
#include <utility>

namespace combu::schedule {

void Holdings::take(TrialIndex trial, Slots slots, bool may_stay) {
  if (slots.empty()) return;
  const Own& own = own_[trial] = {std::move(slots), may_stay};
  count(own);
}

void Holdings::give_back(TrialIndex trial) {
  const auto own = own_.find(trial);
  if (own == own_.end()) return;
  discount(own->second);
  own_.erase(own);
}

Slots Holdings::held_by(TrialIndex trial) const {
  const auto own = own_.find(trial);
  return own == own_.end() ? Slots{} : own->second.slots;
}

void Holdings::correct_gpus(TrialIndex trial, const std::vector<std::string>& gpus, bool may_stay) {
  Own& own = own_.try_emplace(trial, Own{.slots = {}, .may_stay = may_stay}).first->second;
  if (own.slots.gpus == gpus) return;
  discount(own);
  own.slots.gpus = gpus;
  count(own);
}

void Holdings::count(const Own& own) {
  held_ += own.slots;
  if (own.may_stay) held_by_stayers_ += own.slots;
  count_free();
}

void Holdings::discount(const Own& own) {
  held_ -= own.slots;
  if (own.may_stay) held_by_stayers_ -= own.slots;
  count_free();
}

void Holdings::begin_listing() {
  // Another run's attempt may take GPUs that this run has chosen for a start, and then end. The planner may
  // learn of that attempt only after the listing. Ended attempts are therefore remembered until the next
  // listing.
  std::erase_if(others_, [](const auto& other) { return !other.second.is_over || other.second.was_listed; });
  for (auto& [id, other] : others_) other.was_listed = true;
  held_by_others_ = {};
  others_known_ = true;
  count_free();
}

void Holdings::see_listed(const Observation& observation) {
  const auto other = others_.find(observation.id);
  if (other != others_.end() && observation.phase == Phase::running) other->second.is_over = false;
  see_other(observation);
}

void Holdings::see_other(const Observation& observation) {
  if (observation.slots.empty() || !has_run(observation.phase)) return;
  Other& other = others_[observation.id];
  const bool runs = observation.phase == Phase::running && !other.is_over;
  hold(other, runs ? observation.slots : Slots{});
  other.is_claim = false;
  other.is_over = !runs;
}

bool Holdings::see_claim(const Observation& claimant) {
  Other& other = others_[claimant.id];
  if (claimant.phase == Phase::running) other.is_over = false;  // a person has restarted the container
  if (other.is_over || !other.slots.empty()) return false;
  hold(other, claimant.slots);
  other.is_claim = true;
  claims_.push_back(claimant.id);
  return true;
}

void Holdings::forget_claim() {
  const auto claimant = others_.find(claims_.front());
  claims_.pop_front();
  if (claimant == others_.end() || !claimant->second.is_claim) return;
  hold(claimant->second, {});
}

void Holdings::hold(Other& other, Slots slots) {
  held_by_others_ -= other.slots;
  held_by_others_ += slots;
  other.slots = std::move(slots);
  count_free();
}

void Holdings::count_free() {
  if (!capacity_) return;
  free_ = *capacity_;
  free_ -= held_;
  free_ -= held_by_others_;
}

bool Holdings::fits(const ReadyLines::Line& line, const Slots& slots) const {
  return line.slots.fit(slots) && (line.gpus.empty() || choose(line.gpus, gpus_, slots.gpus, {}));
}

bool Holdings::is_free(const ReadyLines::Line& line) const {
  if (!capacity_ || (line.slots.empty() && line.gpus.empty())) return true;
  return others_known_ && fits(line, free_);
}

bool Holdings::is_free_in_time(const ReadyLines::Line& line) const {
  return fits(line, left_in_time());
}

Slots Holdings::left_in_time() const {
  Slots slots = *capacity_;
  slots -= held_by_stayers_;
  slots -= held_by_others_;
  return slots;
}

bool Holdings::holds_up(const ReadyLines::Line& line, const ReadyLines::Line& first) const {
  Slots left = free_;
  const auto gpus = choose(line.gpus, gpus_, left.gpus, first.gpus);
  left -= line.slots;
  const bool cpus = line.slots.cpus.nano > 0 && first.slots.cpus > left.cpus;
  const bool memory = line.slots.memory.count > 0 && first.slots.memory > left.memory;
  if (cpus || memory || line.gpus.empty() || first.gpus.empty()) return cpus || memory;
  left -= {.cpus = {}, .memory = {}, .gpus = gpus.value_or(std::vector<std::string>())};
  const auto is_wanted = [&](const Gpu& gpu) {
    return is_meant(first.gpus, gpu) && gpus && std::ranges::find(*gpus, gpu.id) != gpus->end();
  };
  return std::ranges::any_of(gpus_, is_wanted) && !choose(first.gpus, gpus_, left.gpus, {});
}

std::optional<std::vector<std::string>> Holdings::choose_gpus(const GpuRequest& request,
                                                              const GpuRequest& spared,
                                                              const Suits& suits) const {
  return choose(request, gpus_, free_.gpus, spared, suits);
}

}  // namespace combu::schedule
