#pragma once
// Decides which failed attempts are retried and when, and whether any attempt may still start.

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "combu/schedule.hpp"
#include "schedule/attempt_end.hpp"
#include "schedule/failure.hpp"
#include "schedule/trial_table.hpp"

namespace combu::schedule {

// The referenced objects must outlive this object.
class FailurePolicy {
 public:
  FailurePolicy(const Experiment& experiment, const TrialTable& trials);

  // ---- Retries

  enum class Verdict {
    retry,
    await_engine,  // perhaps the engine shut down and stopped the attempt: call await()
    fail,
  };
  [[nodiscard]] Verdict judge(TrialIndex trial, const AttemptEnd& end) const;
  [[nodiscard]] bool may_retry(TrialIndex trial, Cause cause) const;
  // Counts a failed attempt against Retries::max or, if it was lost with its host, against k_losses_max.
  void count(TrialIndex trial, Cause cause);
  // Returns the pause before the next attempt. Call count() first.
  [[nodiscard]] Seconds pause(TrialIndex trial, Cause cause) const;
  // Forgets all failures of the trial: it is handled as if it had no attempt so far.
  void reset(TrialIndex trial) {
    rows_[trial] = {};
    forget_stopper(trial);
  }
  // Ends all retries: no failed attempt is retried after this call.
  void end_retries() { are_retries_over_ = true; }

  // ---- The failure before a retry

  // Remembers the failure. If the planned retry is dropped, this failure becomes the trial's end.
  void remember(TrialIndex trial, const AttemptEnd& end);
  // Returns the last failure of a trial that waits for its next attempt; nullptr if none is known.
  [[nodiscard]] const Fact* last(TrialIndex trial) const;

  // Lets the trial wait until combu knows if a shutdown of the engine stopped its attempt. An engine that
  // shuts down first stops its containers, and becomes unreachable some seconds later.
  void await(TrialIndex trial) { awaiting_.push_back(trial); }
  // Call this after a period in which the engine was unreachable. Returns the trials that await() added: the
  // engine's shutdown stopped their attempts.
  [[nodiscard]] std::vector<TrialIndex> release_awaiting();

  // ---- Stops

  void set_stopper(TrialIndex trial, std::string who) { stoppers_.insert_or_assign(trial, std::move(who)); }
  void forget_stopper(TrialIndex trial) { stoppers_.erase(trial); }
  [[nodiscard]] bool has_stopper(TrialIndex trial) const { return stoppers_.contains(trial); }
  // Returns the reason for the end of an attempt that the run did not stop.
  [[nodiscard]] EndReason stop_reason(TrialIndex trial, std::optional<int> exit_code) const;
  // Returns why the run stops an attempt.
  [[nodiscard]] EndReason stop_cause_reason(TrialIndex trial, Cause cause) const;

  // ---- The end of all starts

  // Forbids all further starts, for this reason.
  void halt(std::string reason) { halted_ = std::move(reason); }
  // Returns the reason that halt() got; empty: trials may start.
  [[nodiscard]] const std::string& halted() const { return halted_; }
  // Returns the reason for a halt() if Experiment::failures_max trials have failed.
  [[nodiscard]] std::optional<std::string> limit_reached() const;

 private:
  struct Row {
    int failures = 0;  // number of failures that count against Retries::max
    int losses = 0;    // number of attempts lost with their host
  };

  const Experiment& experiment_;
  const TrialTable& trials_;
  std::vector<Row> rows_;
  bool are_retries_over_ = false;
  std::unordered_map<TrialIndex, Fact> last_;
  std::vector<TrialIndex> awaiting_;
  std::unordered_map<TrialIndex, std::string> stoppers_;  // by trial: the user who stopped its attempt
  std::string halted_;
};

}  // namespace combu::schedule
