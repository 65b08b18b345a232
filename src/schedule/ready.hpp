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

  // Lines in the order of their heads.
  struct HeadBefore {
    bool operator()(const std::pair<Place, std::size_t>& one,
                    const std::pair<Place, std::size_t>& other) const {
      if (one.first.is_before(other.first) || other.first.is_before(one.first))
        return one.first.is_before(other.first);
      return one.second < other.second;
    }
  };
  using ByHead = std::set<std::pair<Place, std::size_t>, HeadBefore>;
  using Cursor = ByHead::const_iterator;
  [[nodiscard]] Cursor begin() const { return order_.begin(); }
  [[nodiscard]] Cursor end() const { return order_.end(); }
  [[nodiscard]] Line& at(Cursor cursor) { return lines_[cursor->second]; }
  // Takes the line's head off. Returns the line that comes next in the order, which may be the same line with
  // its next head.
  Cursor drop_head(Cursor cursor);
  // Takes the line's head off, and returns it.
  TrialIndex pop(Line& line);

 private:
  using Wish = std::tuple<Cpus, Bytes, GpuWish, bool>;

  const Experiment& experiment_;
  std::vector<std::uint32_t> ranks_;  // empty: the file's order
  std::vector<Line> lines_;
  std::map<Wish, std::size_t> line_of_;
  ByHead order_;
};

}  // namespace combu::schedule
