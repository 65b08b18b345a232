#pragma once
// Tracks which attempts hold the engine's slots, and which slots are free.

#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "combu/engine.hpp"
#include "combu/plan.hpp"
#include "combu/spec.hpp"
#include "schedule/gpus.hpp"
#include "schedule/ready.hpp"

namespace combu::schedule {

class Holdings {
 public:
  // `capacity`: slots of the engine; if nullopt, slots are not counted, and any request fits.
  Holdings(std::optional<Slots> capacity, std::vector<Gpu> gpus)
      : capacity_(std::move(capacity)), gpus_(std::move(gpus)) {
    count_free();
  }

  // ---- This run's attempts

  // The trial holds `slots` until give_back(). `may_stay`: the run does not wait for the trial's end, so the
  // trial may keep its slots.
  void take(TrialIndex trial, Slots slots, bool may_stay);
  void give_back(TrialIndex trial);
  // Replaces the GPUs that the trial holds with the GPUs that the engine reports.
  void correct_gpus(TrialIndex trial, const std::vector<std::string>& gpus, bool may_stay);
  [[nodiscard]] const Slots& held() const { return held_; }
  [[nodiscard]] Slots held_by(TrialIndex trial) const;

  // ---- Other runs' attempts

  // Call this before the observations of a listing: the slots of other runs' attempts are counted from zero.
  // Before the first listing no slots are free.
  void begin_listing();
  // Counts the slots of another run's attempt that a listing contains. A listing overrides earlier events.
  void see_listed(const Observation& observation);
  // Counts the slots of another run's attempt if that attempt runs. After the attempt's end, late events do
  // not count its slots again.
  void see_other(const Observation& observation);
  // Counts the slots of an attempt that has claimed GPUs, even if the attempt does not run yet. Returns false
  // if these slots are counted already, or if the attempt has ended. The function forget_claim() frees the
  // slots of the oldest claim, unless the claimant has been seen to run.
  [[nodiscard]] bool see_claim(const Observation& claimant);
  void forget_claim();
  [[nodiscard]] const Slots& held_by_others() const { return held_by_others_; }

  // ---- Free slots

  [[nodiscard]] bool are_counted() const { return capacity_.has_value(); }
  // True if enough slots are free for one trial of `line`; all trials of a line need the same slots.
  [[nodiscard]] bool is_free(const ReadyLines::Line& line) const;
  // True if the slots for `line` will be free once all of this run's trials without `may_stay` have ended.
  [[nodiscard]] bool is_free_in_time(const ReadyLines::Line& line) const;
  // True if a start from `line` would delay trials of `first`, whose slots are not free.
  [[nodiscard]] bool holds_up(const ReadyLines::Line& line, const ReadyLines::Line& first) const;
  // Returns the slots that will be free once all of this run's trials without `may_stay` have ended.
  [[nodiscard]] Slots left_in_time() const;
  // Chooses GPUs out of the free GPUs; see choose().
  [[nodiscard]] std::optional<std::vector<std::string>> choose_gpus(const GpuRequest& request,
                                                                    const GpuRequest& spared,
                                                                    const Suits& suits) const;

 private:
  struct Own {
    Slots slots;
    bool may_stay = false;
  };
  struct Other {
    Slots slots;
    bool is_claim = false;  // true while only the attempt's claim has been seen
    bool is_over = false;
    bool was_listed = false;  // true if a listing has begun since the attempt ended
  };
  void count(const Own& own);
  void discount(const Own& own);
  void hold(Other& other, Slots slots);
  void count_free();
  [[nodiscard]] bool fits(const ReadyLines::Line& line, const Slots& slots) const;

  std::optional<Slots> capacity_;
  std::vector<Gpu> gpus_;
  std::unordered_map<TrialIndex, Own> own_;  // trials of this run that hold slots
  Slots held_;
  Slots held_by_stayers_;
  std::unordered_map<std::string, Other> others_;  // other runs' attempts, by the engine's id of the attempt
  std::deque<std::string> claims_;                 // oldest first
  Slots held_by_others_;
  Slots free_;
  bool others_known_ = false;
};

}  // namespace combu::schedule
