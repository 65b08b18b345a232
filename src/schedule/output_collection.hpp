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
  // Records that the command is answered. Returns false if no CollectCommand of the trial was in flight.
  bool answered(TrialIndex trial) { return in_flight_.erase(trial) != 0; }
  [[nodiscard]] bool is_in_flight(TrialIndex trial) const { return in_flight_.contains(trial); }
  [[nodiscard]] std::size_t in_flight() const { return in_flight_.size(); }

  // ---- Trials that are collecting

  void begin(TrialIndex trial, AttemptEnd end) { ends_.insert_or_assign(trial, Waiting{std::move(end)}); }
  [[nodiscard]] const AttemptEnd& end_of(TrialIndex trial) const { return ends_.at(trial).end; }
  // Ends the collection. `fault`: why there are no outputs; empty if the outputs are collected. Returns the
  // attempt's end; a fault turns success into a failure with this cause.
  [[nodiscard]] AttemptEnd finish(TrialIndex trial, const std::string& fault, Cause cause = Cause::outputs);
  // Gives up the outputs. Returns the attempt's end.
  [[nodiscard]] AttemptEnd abandon(TrialIndex trial);
  // Call this if the outputs cannot be collected now, for example because a disk is full or the engine is
  // unreachable. Returns the pause before the next try.
  [[nodiscard]] Seconds retry(TrialIndex trial, const std::string& fault);
  // Returns how often collecting the trial's outputs has failed.
  [[nodiscard]] int tries(TrialIndex trial) const { return ends_.at(trial).tries; }
  // Returns why the last try to collect outputs failed; empty if no try failed or no trial is collecting.
  [[nodiscard]] const std::string& undelivered() const { return undelivered_; }

  // Call this after a period in which the engine was unreachable. Attempts that were stopped shortly before
  // that period count as lost with the engine.
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
