#pragma once
// Which logs of ended attempts are still to be stored, and the events that wait for this.

#include <cstddef>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "combu/run.hpp"
#include "messages.hpp"

namespace combu {

// Belongs to one thread.
class LogCollector {
 public:
  // `is_enabled`: false if no logs are stored.
  explicit LogCollector(bool is_enabled) : is_enabled_(is_enabled) {}

  // An attempt has ended. Returns the order to store its log; nullopt if that was ordered before.
  [[nodiscard]] std::optional<IngestLog> end(TrialIndex trial, int attempt);
  // True while the log of the trial's last attempt is being stored.
  [[nodiscard]] bool is_storing(TrialIndex trial) const { return storing_.contains(trial); }
  // Logs that are ordered and not stored, also those that are to be tried again.
  [[nodiscard]] std::size_t pending() const { return pending_; }

  // ---- The next attempt of a failed one removes its container, and its log with it.

  // The trial's next Collected waits until its log is stored.
  void hold_next(TrialIndex trial) { hold_next_.insert(trial); }
  // True if the event is kept until stored() returns it.
  [[nodiscard]] bool holds(const Collected& event);

  // ---- Answers

  struct Stored {
    bool is_final = false;          // false: it is tried again
    std::optional<Collected> held;  // goes on now
    bool is_last = false;           // the log of the trial's last attempt is not being stored any more
  };
  // A try has ended. One that failed is repeated after a pause that doubles, unless `may_retry` is false.
  [[nodiscard]] Stored stored(const LogIngested& answer, bool may_retry, Instant now);
  // The tries that are due.
  [[nodiscard]] std::vector<IngestLog> due(Instant now);

 private:
  bool is_enabled_;
  std::size_t pending_ = 0;
  std::unordered_map<TrialIndex, int> ordered_;  // the last attempt whose log was ordered
  std::unordered_map<TrialIndex, int> storing_;  // the attempt whose log is being stored
  std::multimap<Instant, IngestLog> again_;
  std::unordered_set<TrialIndex> hold_next_;
  std::unordered_map<TrialIndex, Collected> held_;
};

}  // namespace combu
