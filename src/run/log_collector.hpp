#pragma once
// The logs of ended attempts that are not stored yet, and the events that wait until they are stored.

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

  // An attempt has ended. Returns the order to store its log; nullopt if that was already ordered.
  [[nodiscard]] std::optional<IngestLog> end(TrialIndex trial, int attempt);
  // True while the log of the trial's last attempt is being stored.
  [[nodiscard]] bool is_storing(TrialIndex trial) const { return storing_.contains(trial); }
  // Returns the number of logs that are ordered and not stored, including those with a retry ahead.
  [[nodiscard]] std::size_t pending() const { return pending_; }

  // ---- A retry removes the failed attempt's container with its log, so it must wait until the log is stored

  // The trial's next Collected event waits until its log is stored.
  void hold_next(TrialIndex trial) { hold_next_.insert(trial); }
  // True if the event is held; stored() returns it later.
  [[nodiscard]] bool holds(const Collected& event);

  // ---- Answers

  struct Stored {
    bool is_final = false;          // false: a retry follows
    std::optional<Collected> held;  // the held event, which can be processed now
    bool is_last = false;           // this was the log of the trial's last attempt
  };
  // A try to store a log has ended. If it failed, plans a retry after a pause that doubles each time, unless
  // `may_retry` is false.
  [[nodiscard]] Stored stored(const LogIngested& answer, bool may_retry, Instant now);
  // Returns the retries that are due.
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
