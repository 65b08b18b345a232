#pragma once
// The ready trials, in the order in which they may start.

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

// Ready trials that need equal slots, and have the same limit of the engine, wait in one line. The search for
// a trial whose slots are free therefore looks at one trial of each line, however many trials are ready.
class ReadyLines {
 public:
  explicit ReadyLines(const Experiment& experiment);

  // Adds a trial to its line. `slots`: slots of the trial's next attempt, without GPUs. `limit`:
  // TrialTable::limit_of().
  void push(TrialIndex trial, const Slots& slots, std::size_t limit);

  // A trial's position among the ready trials. The trial with the least position starts first.
  struct Position {
    int priority = 0;
    std::uint32_t rank = 0;
    TrialIndex trial = 0;
    [[nodiscard]] bool is_before(const Position& other) const {
      return priority != other.priority ? priority > other.priority : rank < other.rank;
    }
    // The order is reversed, because std::priority_queue returns the greatest element first.
    bool operator<(const Position& other) const { return other.is_before(*this); }
  };
  [[nodiscard]] Position position_of(TrialIndex trial) const;
  struct Line {
    Slots slots;
    GpuRequest gpus;
    bool service = false;
    std::size_t limit = 0;
    std::priority_queue<Position> positions;
    std::optional<TrialIndex> overtaken = {};  // the line's first trial when `overtakes` was last counted
    std::size_t overtakes = 0;                 // number of starts of later trials that delayed `overtaken`
  };

  // Orders the lines by the positions of their heads (first trials).
  struct HeadBefore {
    bool operator()(const std::pair<Position, std::size_t>& one,
                    const std::pair<Position, std::size_t>& other) const {
      if (one.first.is_before(other.first) || other.first.is_before(one.first))
        return one.first.is_before(other.first);
      return one.second < other.second;
    }
  };
  using ByHead = std::set<std::pair<Position, std::size_t>, HeadBefore>;
  using Cursor = ByHead::const_iterator;
  [[nodiscard]] Cursor begin() const { return order_.begin(); }
  [[nodiscard]] Cursor end() const { return order_.end(); }
  [[nodiscard]] Line& at(Cursor cursor) { return lines_[cursor->second]; }
  // Removes the head (first trial) of the line at `cursor`. Returns the next line in the order, which may be
  // the same line with a new head.
  Cursor drop_head(Cursor cursor);
  // Removes the first trial of the line and returns this trial.
  TrialIndex pop(Line& line);

 private:
  using Need = std::tuple<Cpus, Bytes, GpuRequest, bool, std::size_t>;

  const Experiment& experiment_;
  std::vector<std::uint32_t> ranks_;  // rank by trial; empty: trials start in the file's order
  std::vector<Line> lines_;
  std::map<Need, std::size_t> line_of_;
  ByHead order_;
};

}  // namespace combu::schedule
