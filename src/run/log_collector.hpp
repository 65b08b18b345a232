#pragma once
// Tracks the ended attempts whose logs are not stored yet, and the events that wait until these logs are
// stored.

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "combu/run.hpp"
#include "messages.hpp"

namespace combu {

// Belongs to one thread.
class LogCollector {
 public:
  // `is_enabled`: false if no logs are stored.
  explicit LogCollector(bool is_enabled) : is_enabled_(is_enabled) {}

  [[nodiscard]] bool is_enabled() const { return is_enabled_; }

  // Call this when an attempt has ended. Returns the order to store the attempt's log; nullopt if an earlier
  // call returned this order.
  [[nodiscard]] std::optional<IngestLog> end(TrialIndex trial, int attempt);
  // True while the log of the trial's last attempt is being stored.
  [[nodiscard]] bool is_storing(TrialIndex trial) const { return storing_.contains(trial); }
  // True if the attempt's whole log is stored. False if storing the log has failed or was never ordered.
  [[nodiscard]] bool is_stored(TrialIndex trial, int attempt) const {
    return stored_.contains({trial, attempt});
  }
  // Returns the number of logs that must be stored and are not stored yet, including logs that wait for a
  // retry.
  [[nodiscard]] std::size_t pending() const { return pending_; }

  // ---- A retry removes the failed attempt's container with its log, so it must wait until the log is stored

  // The trial's next Collected event waits until the trial's log is stored.
  void hold_next(TrialIndex trial) { hold_next_.insert(trial); }
  // True if the event must wait for the log; stored() returns the event later.
  [[nodiscard]] bool holds(const Collected& event);

  // ---- Answers

  struct Stored {
    bool is_final = false;          // false: storing the log is retried
    std::optional<Collected> held;  // the event that waited for the log, which can be processed now
    bool is_last = false;           // true if the log was that of the trial's last attempt
  };
  // Call this when a try to store a log has ended. If the try failed and `may_retry` is true, plans a retry.
  // The pause before a retry doubles each time.
  [[nodiscard]] Stored stored(const LogIngested& answer, bool may_retry, Instant now);
  // Returns the retries (orders to store a log) that are due.
  [[nodiscard]] std::vector<IngestLog> due(Instant now);

 private:
  bool is_enabled_;
  std::size_t pending_ = 0;
  std::unordered_map<TrialIndex, int> ordered_;  // by trial: its last attempt with an order to store the log
  std::unordered_map<TrialIndex, int> storing_;  // by trial: its attempt whose log is being stored
  std::set<std::pair<TrialIndex, int>> stored_;  // attempts whose whole logs are stored
  std::multimap<Instant, IngestLog> again_;
  std::unordered_set<TrialIndex> hold_next_;
  std::unordered_map<TrialIndex, Collected> held_;
};

}  // namespace combu
