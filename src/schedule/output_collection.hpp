#pragma once
// The outputs and logs that are being collected from ended attempts, and the trials that wait for their
// outputs.

#include <cstddef>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "combu/schedule.hpp"
#include "schedule/attempt_end.hpp"
#include "schedule/trial_table.hpp"

namespace combu::schedule {

// `trials` outlives it.
class OutputCollection {
 public:
  explicit OutputCollection(const TrialTable& trials) : trials_(trials) {}

  // ---- CollectCommands

  void sent(TrialIndex trial) { in_flight_.insert(trial); }
  // True if one was in flight.
  bool answered(TrialIndex trial) { return in_flight_.erase(trial) != 0; }
  [[nodiscard]] bool is_in_flight(TrialIndex trial) const { return in_flight_.contains(trial); }
  [[nodiscard]] std::size_t in_flight() const { return in_flight_.size(); }

  // ---- Trials that are collecting

  void begin(TrialIndex trial, AttemptEnd end) { ends_.insert_or_assign(trial, Waiting{std::move(end)}); }
  [[nodiscard]] const AttemptEnd& end_of(TrialIndex trial) const { return ends_.at(trial).end; }
  // The outputs are collected, or cannot be, by a fault of the attempt (empty: none). Returns what the end of
  // the attempt means now.
  [[nodiscard]] AttemptEnd finish(TrialIndex trial, const std::string& fault);
  // The outputs are collected no more. Returns the attempt's end.
  [[nodiscard]] AttemptEnd abandon(TrialIndex trial);
  // The outputs could not be collected, for a reason that may pass: a full disk, an engine that is away.
  // Returns the pause before the next try.
  [[nodiscard]] Seconds retry(TrialIndex trial, const std::string& fault);
  // Tries that failed.
  [[nodiscard]] int tries(TrialIndex trial) const { return ends_.at(trial).tries; }
  // The reason of the last failed try, as long as trials are collecting; empty if there is none.
  [[nodiscard]] const std::string& undelivered() const { return undelivered_; }

  // The engine was away: attempts that were stopped just before were lost with it.
  void mark_lost();

 private:
  struct Waiting {
    AttemptEnd end;
    int tries = 0;
  };

  const TrialTable& trials_;
  std::unordered_set<TrialIndex> in_flight_;
  std::unordered_map<TrialIndex, Waiting> ends_;
  std::string undelivered_;
};

}  // namespace combu::schedule
