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
  explicit UsagePoller(const ReadingPace& pace) : pace_(pace) {}

  // Call this when the attempt has begun to run. `id`: the engine's id of the attempt.
  void begin(TrialIndex trial, int attempt, const std::string& id, Instant now);
  // Call this when the attempt has ended. Returns the attempt's largest memory and last CPU time; nullopt if
  // no poll returned its usage.
  [[nodiscard]] std::optional<Usage> end(TrialIndex trial);

  // Returns the next poll that is due; nullopt within ReadingPace::poll_pause_min after the last poll. While
  // the engine is busy with starts or with logs of ended attempts, returns at most one poll a second. On
  // Docker Engine 29, sending all due polls at once would slow the starts down by a tenth. If polls of
  // attempts whose logs grow fast and polls of other attempts are due, they take turns.
  [[nodiscard]] std::optional<PollUsage> next(Instant now, bool is_busy);
  void answer(const UsagePolled& polled, Instant now);
  // True if a poll is due before `time`.
  [[nodiscard]] bool is_due_before(Instant time) const {
    return is_due_before(urgent_, time) || is_due_before(due_, time);
  }

 private:
  struct Running {
    int attempt;
    std::optional<Usage> usage;
  };
  using Queue = std::multimap<Instant, PollUsage>;  // by the moment at which the poll is due
  static bool is_due_before(const Queue& queue, Instant time) {
    return !queue.empty() && queue.begin()->first < time;
  }
  [[nodiscard]] Running* running(const PollUsage& poll);
  [[nodiscard]] std::optional<PollUsage> take_due(Queue& queue, Instant now);
  static void schedule(Queue& queue, PollUsage poll, Instant now);

  const ReadingPace pace_;
  std::unordered_map<TrialIndex, Running> running_;
  Queue urgent_;             // of attempts whose logs grow fast
  Queue due_;                // of all other attempts
  bool was_urgent_ = false;  // the last poll came from urgent_
  Instant last_;             // moment of the last poll
};

}  // namespace combu
