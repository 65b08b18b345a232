#pragma once
// Schedules the usage polls of running attempts, and remembers the largest memory and the last CPU time of
// each attempt.

#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "combu/run.hpp"
#include "messages.hpp"

namespace combu {

// Belongs to one thread.
class UsagePoller {
 public:
  // `first`: the pause before the first poll of an attempt (ReadingPace::polled_after).
  explicit UsagePoller(Seconds first) : first_(first) {}

  // Call this when the attempt has begun to run. `id`: the engine's id of the attempt.
  void begin(TrialIndex trial, int attempt, const std::string& id, Instant now);
  // Call this when the attempt has ended. Returns the attempt's largest memory and last CPU time; nullopt if
  // no poll returned its usage.
  [[nodiscard]] std::optional<Usage> end(TrialIndex trial);

  // Returns the next poll that is due. While the engine is busy with starts or with logs of ended attempts,
  // returns at most one poll a second. On Docker Engine 29, sending all due polls at once would slow the
  // starts down by a tenth.
  [[nodiscard]] std::optional<PollUsage> next(Instant now, bool is_busy);
  void answer(const UsagePolled& polled, Instant now);
  // True if a poll is due before `time`.
  [[nodiscard]] bool is_due_before(Instant time) const { return !due_.empty() && due_.begin()->first < time; }

 private:
  struct Running {
    int attempt;
    std::optional<Usage> usage;
  };
  [[nodiscard]] Running* running(const PollUsage& poll);
  void schedule(PollUsage poll, Instant now);

  Seconds first_;
  std::unordered_map<TrialIndex, Running> running_;
  std::multimap<Instant, PollUsage> due_;
  Instant last_;  // moment of the last poll
};

}  // namespace combu
