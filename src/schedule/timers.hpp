#pragma once
// What the planner wants to be woken for.

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
    deadline,        // of the run; trial and attempt mean nothing
    start_deadline,  // of an attempt
    give_up,         // a start whose deadline has passed is not answered
    timeout,         // of an attempt
    retry,           // the pause before an attempt is over
    collect,         // its outputs are tried again
    place,           // one that has lost its slots to another stands in line again
    verdict,         // what was stopped was not stopped by an engine that goes away
    claim,           // another's claim on a GPU is not believed any longer; trial and attempt mean nothing
  };
  Instant at{};
  Kind kind = Kind::deadline;
  TrialIndex trial = 0;
  int attempt = 1;
  bool operator>(const Timer& other) const { return at > other.at; }
};

// A timer is never taken back: whoever is woken looks whether it still means something.
class Timers {
 public:
  void set(Timer timer) { queue_.push(timer); }

  // Takes one that is due.
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
