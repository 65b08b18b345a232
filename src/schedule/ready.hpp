#pragma once
// The trials that are ready, in the order in which they may start.

#include <compare>
#include <cstdint>
#include <map>
#include <queue>
#include <tuple>
#include <vector>

#include "combu/plan.hpp"
#include "combu/spec.hpp"

namespace combu::schedule {

// All that want the same slots stand in one line, so that a look for one that fits costs as many steps as
// there are different wishes, however many trials are ready.
class ReadyLines {
 public:
  explicit ReadyLines(const Experiment& experiment);

  // `slots`: those of its next attempt, but for GPUs.
  void push(TrialIndex trial, const Slots& slots);

  // The place of a trial among those that are ready: the least is the first.
  struct Place {
    int priority = 0;
    std::uint32_t rank = 0;
    TrialIndex trial = 0;
    [[nodiscard]] bool is_before(const Place& other) const {
      return priority != other.priority ? priority > other.priority : rank < other.rank;
    }
    // For a queue that gives the greatest first.
    bool operator<(const Place& other) const { return other.is_before(*this); }
  };
  struct Line {
    Slots slots;
    GpuWish gpus;
    bool service = false;
    std::priority_queue<Place> places;
  };
  [[nodiscard]] std::vector<Line>& lines() { return lines_; }

 private:
  using Wish = std::tuple<Cpus, Bytes, GpuWish, bool>;

  const Experiment& experiment_;
  std::vector<std::uint32_t> ranks_;  // empty: the file's order
  std::vector<Line> lines_;
  std::map<Wish, std::size_t> line_of_;
};

}  // namespace combu::schedule
