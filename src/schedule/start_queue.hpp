#pragma once
// The queue of ready trials; decides which trial starts next. Ready trials that need equal slots form one
// line (see ReadyLines).

#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "combu/engine.hpp"
#include "combu/plan.hpp"
#include "combu/schedule.hpp"
#include "schedule/holdings.hpp"
#include "schedule/ready.hpp"
#include "schedule/service_room.hpp"
#include "schedule/slot_requests.hpp"
#include "schedule/trial_table.hpp"

namespace combu::schedule {

// The referenced objects must outlive this object.
class StartQueue {
 public:
  StartQueue(const Experiment& experiment, const Plan& plan, const TrialTable& trials,
             const SlotRequests& requests, const Holdings& holdings, const ServiceRoom& room,
             std::span<const Gpu> gpus);

  // Adds a ready trial with the slots that it requests now. If the trial later leaves the state `ready` or
  // requests other slots, its entry is invalid; pop() drops invalid entries.
  void push(TrialIndex trial);

  struct Start {
    TrialIndex trial = 0;
    Slots slots;
  };
  // Removes and returns the trial that starts next, with its GPUs: the first trial whose slots are free.
  // Returns nullopt if no trial can start. `parallel_max`: limit of starting and running attempts, services
  // not counted; 0: no limit. `is_idle`: true if no attempt is left that could end and free slots; the scan
  // then covers the whole queue.
  [[nodiscard]] std::optional<Start> pop(std::size_t parallel_max, bool is_idle);
  // Declares the numbers of overtakes unknown: every line then counts as overtaken k_overtakes_max times.
  void forget_overtakes() { are_overtakes_known_ = false; }
  // Returns why the next pop() would not return this ready trial, or Kind::nothing if pop() would return the
  // trial.
  [[nodiscard]] Explanation explain(TrialIndex trial, std::size_t parallel_max, bool is_idle) const;

 private:
  using Line = ReadyLines::Line;
  using Horizon = ServiceRoom::Horizon;
  // Why the first trial of a line does not start.
  struct Obstacle {
    Explanation::Kind kind = Explanation::Kind::nothing;
    std::optional<TrialIndex> first = std::nullopt;
  };
  struct Scan {
    Horizon horizon;
    std::size_t parallel_max;
    std::vector<Line*> waiting = {};     // lines whose slots are not free; later lines may overtake them
    std::vector<std::string> gpus = {};  // GPUs chosen for the trial that starts
  };
  // The result of a scan for one trial; `found` is nullopt if the scan ended before it reached the trial.
  struct Asked {
    TrialIndex trial;
    std::optional<Obstacle> found = std::nullopt;
  };
  // The free slots and ServiceRoom::changes() at the moment when services were last put back into the queue.
  struct Room {
    Slots left;
    std::size_t changes = 0;
    bool operator==(const Room&) const = default;
  };

  // `asked`: trial that the caller asks about; nullptr if the caller needs no explanation.
  [[nodiscard]] std::optional<Start> pop(std::size_t parallel_max, bool is_idle, Asked* asked);
  [[nodiscard]] std::optional<Start> scan(std::size_t parallel_max, Horizon horizon, Asked* asked);
  [[nodiscard]] Obstacle judge(const Line& line, Scan& scan) const;
  [[nodiscard]] bool was_overtaken_enough(const Line& line) const;
  [[nodiscard]] bool is_in(TrialIndex trial, const Line& line) const;
  [[nodiscard]] const Line* holding_back(const Line& line, const Scan& scan) const;
  [[nodiscard]] std::optional<std::vector<std::string>> choose_gpus(const Line& line, const Scan& scan) const;
  [[nodiscard]] bool lacks_room(const Line& line, Horizon horizon) const;
  void set_aside(TrialIndex trial, Horizon horizon);
  void return_set_aside(Horizon horizon);
  static void count_overtakes(const std::vector<Line*>& waiting, const Line* started,
                              const Holdings& holdings);

  const Plan& plan_;
  const TrialTable& trials_;
  const SlotRequests& requests_;
  const Holdings& holdings_;
  const ServiceRoom& room_;
  std::vector<Gpu> gpus_;
  ReadyLines lines_;
  bool are_overtakes_known_ = true;
  // Services that were set aside because they would leave too few slots, in reverse order of starts.
  std::set<ReadyLines::Position> set_aside_;
  std::optional<Room> room_seen_;
  std::optional<Room> room_seen_in_turn_;
};

}  // namespace combu::schedule
