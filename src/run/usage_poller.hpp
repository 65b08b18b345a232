#pragma once
// When the usage of each running attempt is asked for, and the largest that it had.

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
  // An attempt runs. `id`: the engine's.
  void begin(TrialIndex trial, int attempt, const std::string& id, Instant now);
  // It has ended. Returns its usage, if it was ever known.
  [[nodiscard]] std::optional<Usage> end(TrialIndex trial);

  // The next look that is due. While `are_starts_in_flight` it is one a second: as many as are due would slow
  // the starts down, by a tenth on Engine 29.
  [[nodiscard]] std::optional<PollUsage> next(Instant now, bool are_starts_in_flight);
  void answer(const UsagePolled& polled, Instant now);
  // True if a look is due before `time`.
  [[nodiscard]] bool is_due_before(Instant time) const { return !due_.empty() && due_.begin()->first < time; }

 private:
  struct Running {
    int attempt;
    std::optional<Usage> usage;
  };
  [[nodiscard]] Running* running(const PollUsage& poll);
  void schedule(PollUsage poll, Instant now);

  std::unordered_map<TrialIndex, Running> running_;
  std::multimap<Instant, PollUsage> due_;
  Instant last_;  // look
};

}  // namespace combu
