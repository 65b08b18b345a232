#pragma once
// Tracks CollectCommands in flight, and the trials that wait for their outputs.

#include <cstddef>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "combu/schedule.hpp"
#include "schedule/attempt_end.hpp"
#include "schedule/trial_table.hpp"

namespace combu::schedule {

// `trials` must outlive this object.
class OutputCollection {
 public:
  explicit OutputCollection(const TrialTable& trials) : trials_(trials) {}

  // ---- CollectCommands

  void sent(TrialIndex trial) { in_flight_.insert(trial); }
  // The command is answered. Returns false if none was in flight.
  bool answered(TrialIndex trial) { return in_flight_.erase(trial) != 0; }
  [[nodiscard]] bool is_in_flight(TrialIndex trial) const { return in_flight_.contains(trial); }
  [[nodiscard]] std::size_t in_flight() const { return in_flight_.size(); }

  // ---- Trials that are collecting

  void begin(TrialIndex trial, AttemptEnd end) { ends_.insert_or_assign(trial, Waiting{std::move(end)}); }
  [[nodiscard]] const AttemptEnd& end_of(TrialIndex trial) const { return ends_.at(trial).end; }
  // The outputs are collected, or are missing by a fault of the attempt (empty: no fault). Returns the
  // attempt's end, which the fault may turn into a failure.
  [[nodiscard]] AttemptEnd finish(TrialIndex trial, const std::string& fault);
  // Gives up the outputs. Returns the attempt's end.
  [[nodiscard]] AttemptEnd abandon(TrialIndex trial);
  // The outputs could not be collected, for a reason that may pass: a full disk, or an unreachable engine.
  // Returns the pause before the next try.
  [[nodiscard]] Seconds retry(TrialIndex trial, const std::string& fault);
  // Returns the number of failed tries.
  [[nodiscard]] int tries(TrialIndex trial) const { return ends_.at(trial).tries; }
  // Returns the reason of the last failed try while trials are collecting; empty if no try failed.
  [[nodiscard]] const std::string& undelivered() const { return undelivered_; }

  // The engine was unreachable: attempts that were stopped just before count as lost with it.
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
