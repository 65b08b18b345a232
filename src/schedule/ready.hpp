#pragma once
// The trials that are ready, in the order in which they may start.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <tuple>
#include <utility>
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
  [[nodiscard]] Place place_of(TrialIndex trial) const;
  struct Line {
    Slots slots;
    GpuWish gpus;
    bool service = false;
    std::priority_queue<Place> places;
    std::optional<TrialIndex> overtaken = {};  // its head when it was passed over last, and how many have
    std::size_t overtakes = 0;                 // started in its stead
  };

  // Of the lines in the order of their heads the first of which `takes` is so; nullptr when it is of none.
  // Trials for which `is_in` is not so (any more) leave their line.
  template <class IsIn, class Takes>
  [[nodiscard]] Line* first(const IsIn& is_in, const Takes& takes) {
    for (auto at = order_.begin(); at != order_.end();) {
      Line& line = lines_[at->second];
      if (!is_in(line, line.places.top().trial)) {
        const Place place = at->first;
        (void)pop(line);
        at = order_.lower_bound({place, 0});
      } else if (takes(line)) {
        return &line;
      } else {
        ++at;
      }
    }
    return nullptr;
  }
  // Its head leaves it.
  TrialIndex pop(Line& line);

 private:
  using Wish = std::tuple<Cpus, Bytes, GpuWish, bool>;
  struct Before {
    bool operator()(const std::pair<Place, std::size_t>& one,
                    const std::pair<Place, std::size_t>& other) const {
      if (one.first.is_before(other.first) || other.first.is_before(one.first))
        return one.first.is_before(other.first);
      return one.second < other.second;
    }
  };

  const Experiment& experiment_;
  std::vector<std::uint32_t> ranks_;  // empty: the file's order
  std::vector<Line> lines_;
  std::map<Wish, std::size_t> line_of_;
  std::set<std::pair<Place, std::size_t>, Before> order_;  // of the lines by their heads
};

}  // namespace combu::schedule
