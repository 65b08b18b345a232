#pragma once
// Timers that wake the planner.

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "combu/base.hpp"
#include "combu/plan.hpp"

namespace combu::schedule {

struct Timer {
  enum class Kind : std::uint8_t {
    deadline,        // deadline of the run; trial and attempt are not used
    start_deadline,  // start_deadline of an attempt
    give_up,         // a start is still unanswered, some time after its start_deadline
    timeout,         // timeout of an attempt
    retry,           // the pause before a retry has passed
    collect,         // combu tries again to collect the outputs
    place,           // a trial that lost its slots to another attempt enters the queue again
    verdict,         // the engine stayed reachable, so its shutdown did not stop the attempt
    quota,           // the engine may have room again; trial and attempt are not used
    claim,           // a claim of another run on GPUs expires; trial and attempt are not used
  };
  Instant at{};
  Kind kind = Kind::deadline;
  TrialIndex trial = 0;
  int attempt = 1;
  bool operator>(const Timer& other) const { return at > other.at; }
};

// Timers are never removed: the planner checks if a timer that is due still applies.
class Timers {
 public:
  void set(Timer timer) { queue_.push(timer); }

  // Removes and returns a timer that is due; nullopt if there is none.
  std::optional<Timer> take(Instant now) {
    if (queue_.empty() || queue_.top().at > now) return std::nullopt;
    const Timer timer = queue_.top();
    queue_.pop();
    return timer;
  }

  [[nodiscard]] std::optional<Instant> next() const {
    return queue_.empty() ? std::nullopt : std::optional(queue_.top().at);
  }

 private:
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> queue_;
};

}  // namespace combu::schedule
