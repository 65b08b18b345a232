#pragma once
// Who holds what of the engine's slots, and what is left.

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
  // `capacity`: nullopt when slots are not counted: then everything is free.
  Holdings(std::optional<Slots> capacity, std::vector<Gpu> gpus)
      : capacity_(std::move(capacity)), gpus_(std::move(gpus)) {
    count_free();
  }

  // ---- This run's attempts

  // Until give_back(). `may_stay`: it need not end when the run's work is done.
  void take(TrialIndex trial, Slots slots, bool may_stay);
  void give_back(TrialIndex trial);
  // It turns out to have these.
  void correct_gpus(TrialIndex trial, const std::vector<std::string>& gpus, bool may_stay);
  [[nodiscard]] const Slots& held() const { return held_; }
  [[nodiscard]] Slots held_by(TrialIndex trial) const;

  // ---- Other runs' attempts

  // From here on only those count that are seen. Until then nobody takes slots.
  void begin_listing();
  // Of a listing, which is the truth.
  void see_listed(const Observation& observation);
  // What it holds is not free. One that has ended never runs again, whatever is told late.
  void see_other(const Observation& observation);
  // Its slots are not free, whether it runs or not; false when that is known. Is called off by
  // forget_claim(), the oldest first, unless it has been seen to run.
  [[nodiscard]] bool see_claim(const Observation& claimant);
  void forget_claim();
  [[nodiscard]] const Slots& held_by_others() const { return held_by_others_; }

  // ---- What is left

  [[nodiscard]] bool are_counted() const { return capacity_.has_value(); }
  // Whether the head of a line may have what it wants.
  [[nodiscard]] bool is_free(const ReadyLines::Line& line) const;
  // Whether it could when this run's trials are over, but for those that may stay.
  [[nodiscard]] bool is_free_in_time(const ReadyLines::Line& line) const;
  // Whether `first`, which does not fit now, would wait longer after a start from `line`.
  [[nodiscard]] bool holds_up(const ReadyLines::Line& line, const ReadyLines::Line& first) const;
  // What is free when this run's trials are over, but for those that may stay.
  [[nodiscard]] Slots left_in_time() const;
  // Out of what is free, as choose() has it.
  [[nodiscard]] std::optional<std::vector<std::string>> choose_gpus(const GpuWish& wish,
                                                                    const GpuWish& spared,
                                                                    const Suits& suits) const;

 private:
  struct Own {
    Slots slots;
    bool may_stay = false;
  };
  struct Other {
    Slots slots;
    bool is_claim = false;  // it has not been seen to run
    bool is_over = false;
    bool was_listed = false;  // there has been a listing since it was over
  };
  void count(const Own& own);
  void discount(const Own& own);
  void hold(Other& other, Slots slots);
  void count_free();
  [[nodiscard]] bool fits(const ReadyLines::Line& line, const Slots& slots) const;

  std::optional<Slots> capacity_;
  std::vector<Gpu> gpus_;
  std::unordered_map<TrialIndex, Own> own_;  // of those that hold any
  Slots held_;
  Slots held_by_stayers_;
  std::unordered_map<std::string, Other> others_;  // by the engine's id
  std::deque<std::string> claims_;                 // the oldest first
  Slots held_by_others_;
  Slots free_;
  bool others_known_ = false;
};

}  // namespace combu::schedule
