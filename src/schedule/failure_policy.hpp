#pragma once
// Which failed attempts are followed by another, and when; and when nothing starts any more.

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "combu/schedule.hpp"
#include "schedule/attempt_end.hpp"
#include "schedule/failure.hpp"
#include "schedule/trial_table.hpp"

namespace combu::schedule {

// The references outlive it.
class FailurePolicy {
 public:
  FailurePolicy(const Experiment& experiment, const TrialTable& trials);

  // ---- Retries

  enum class Verdict {
    retry,
    await_engine,  // a restarting engine may have stopped the attempt: await() it
    fail,
  };
  [[nodiscard]] Verdict judge(TrialIndex trial, const AttemptEnd& end) const;
  [[nodiscard]] bool may_retry(TrialIndex trial, Cause cause) const;
  // An attempt failed, and counts against the trial's retries, or as lost with its host.
  void count(TrialIndex trial, Cause cause);
  // Before the attempt that follows a counted one.
  [[nodiscard]] Seconds pause(TrialIndex trial, Cause cause) const;
  // The trial begins as if there had been no attempt.
  void reset(TrialIndex trial) {
    rows_[trial] = {};
    forget_stopper(trial);
  }
  // No failed attempt is followed by another from here on.
  void end_retries() { are_retries_over_ = true; }

  // ---- The failure before a retry

  // Kept in case there is no further attempt after all.
  void remember(TrialIndex trial, const AttemptEnd& end);
  // The last failure of a trial that waits for its next attempt; nullptr if none is known.
  [[nodiscard]] const Fact* last(TrialIndex trial) const;

  // The trial waits for a verdict: an engine that restarts stops what runs, and goes away some seconds later.
  void await(TrialIndex trial) { awaiting_.push_back(trial); }
  // Those that still wait. The engine was away: it stopped them.
  [[nodiscard]] std::vector<TrialIndex> take_awaiting();

  // ---- Stops

  void set_stopper(TrialIndex trial, std::string who) { stoppers_.insert_or_assign(trial, std::move(who)); }
  void forget_stopper(TrialIndex trial) { stoppers_.erase(trial); }
  [[nodiscard]] bool has_stopper(TrialIndex trial) const { return stoppers_.contains(trial); }
  // Why an attempt ended that the run did not stop.
  [[nodiscard]] EndReason stop_reason(TrialIndex trial, std::optional<int> exit_code) const;
  // Why the run stops an attempt.
  [[nodiscard]] EndReason stop_cause_reason(TrialIndex trial, Cause cause) const;

  // ---- The end of all starts

  // Nothing starts from here on. The first reason counts.
  void halt(std::string reason) { halted_ = std::move(reason); }
  // Empty: trials may start.
  [[nodiscard]] const std::string& halted() const { return halted_; }
  // The reason to halt if Experiment::failures_max trials have failed.
  [[nodiscard]] std::optional<std::string> limit_reached() const;

 private:
  struct Row {
    int failures = 0;  // that count against the retries
    int losses = 0;    // with the host
  };

  const Experiment& experiment_;
  const TrialTable& trials_;
  std::vector<Row> rows_;
  bool are_retries_over_ = false;
  std::unordered_map<TrialIndex, Fact> last_;
  std::vector<TrialIndex> awaiting_;
  std::unordered_map<TrialIndex, std::string> stoppers_;  // the persons who asked for an attempt's end
  std::string halted_;
};

}  // namespace combu::schedule
