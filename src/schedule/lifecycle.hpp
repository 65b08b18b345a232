#pragma once
// The transitions of the trials: start, end of an attempt, retry, end of the trial, and the effects on other
// trials. Lifecycle owns the planner's parts and connects them: each part owns its own state. Planner::Impl
// handles the events, calls the transitions and reads the parts.

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "combu/schedule.hpp"
#include "schedule/attempt_end.hpp"
#include "schedule/attempts.hpp"
#include "schedule/cache_gate.hpp"
#include "schedule/canaries.hpp"
#include "schedule/dependency_tracker.hpp"
#include "schedule/failure_policy.hpp"
#include "schedule/holdings.hpp"
#include "schedule/output_collection.hpp"
#include "schedule/restoration.hpp"
#include "schedule/service_room.hpp"
#include "schedule/slot_requests.hpp"
#include "schedule/start_queue.hpp"
#include "schedule/timers.hpp"
#include "schedule/trial_table.hpp"

namespace combu::schedule {

// `experiment` and `plan` must outlive this object.
class Lifecycle {
 public:
  Lifecycle(const Experiment& experiment, const Plan& plan, PlannerOptions options);

  // ---- Before the start

  // Call this when the trial's dependencies are met.
  void make_ready(TrialIndex trial);
  void enqueue(TrialIndex trial);
  // Adds a StartCommand for every ready trial that slots and limits allow to start.
  void start_ready_trials(const Settings& settings);
  // Call this when the engine has answered a start.
  void answer_start(TrialIndex trial);
  // Takes back a start that the engine has not carried out: frees the slots and reports `ready`. Returns
  // false if the trial is not `starting`, or if a pending stop makes the attempt fail.
  bool return_slots(TrialIndex trial);
  void undo_start(TrialIndex trial);
  // Takes back a start that the engine has refused for lack of room. No trial starts before an attempt ends
  // or `retry_after` has passed.
  void await_room(TrialIndex trial, Seconds retry_after);
  // Call this when the engine has accepted a start.
  void find_room();

  // ---- While an attempt runs

  void begin_to_run(TrialIndex trial);
  void become_healthy(TrialIndex trial);
  void become_unhealthy(TrialIndex trial);

  // ---- The end of an attempt

  // If `end.reason` is empty, the reason follows from `end.cause`.
  void fail_attempt(TrialIndex trial, AttemptEnd end);
  // Collects the trial's outputs, if it has any, and then ends or retries the trial.
  void settle(TrialIndex trial, AttemptEnd end);
  // Handles the removal of the attempt's container. If `reason` is empty, the reason follows from the stop
  // cause.
  void vanish(TrialIndex trial, std::string reason);
  // Handles the end of an attempt that was stopped because the experiment file was edited.
  void depart(TrialIndex trial, std::optional<int> exit_code);
  [[nodiscard]] bool departs(TrialIndex trial) const { return departures.contains(trial); }

  // ---- Outputs

  void finish_collecting(TrialIndex trial, const std::string& fault, Cause cause = Cause::outputs);
  // Call this if the outputs could not be collected but a later try may succeed. Returns false if the run's
  // owner should not stay for further tries.
  [[nodiscard]] bool collect_again(TrialIndex trial, const std::string& fault);
  void retry_collecting(TrialIndex trial);

  // ---- Retries

  void count_failure(TrialIndex trial, Cause cause);
  void retry_when_possible(TrialIndex trial);
  // Call this after a period in which the engine was unreachable. Attempts that were stopped shortly before
  // that period count as stopped by the engine's shutdown.
  void blame_engine();
  // Reports the state `ready` for retries that do not start in this step, so that a process that resumes the
  // run can start them.
  void report_waiting_retries();

  // ---- Stops

  // Stops the attempt for this cause.
  void stop(TrialIndex trial, Cause cause);
  void pass_start_deadline(TrialIndex trial);
  void send_stop(TrialIndex trial);
  [[nodiscard]] EndReason stop_cause_reason(TrialIndex trial) const;
  // Forbids all further starts.
  void halt(std::string why);
  // Handles the run's deadline: no attempt starts any more, and combu stops every running attempt.
  void pass_deadline();

  // ---- The end of a trial

  void fail(TrialIndex trial, const AttemptEnd& end, Next next = Next::none);
  void fail(Fact fact);
  // Makes the trial's last failure final: no attempt follows.
  void fail_finally(TrialIndex trial, const std::string& why);
  void finish(Fact fact);
  // Delays the effects of ended trials on other trials until spread_all().
  void defer_spreading() { spreading_ = true; }
  void spread_all();

  // ---- Cache lookups

  void begin_lookups();
  // Call this when no lookup is in flight. Starts the services that waited for lookups, except services that
  // no trial needs.
  void release_held();

  // ---- Kill

  // Handles a kill: a person has removed the run's containers, except the containers of the trials in `kept`.
  void kill(const std::vector<TrialIndex>& kept);

  // ---- Resumed runs

  // A trial that has begun becomes the canary of its shape, unless another trial of the shape has succeeded.
  // Call this before all other transitions.
  void restore_canaries();
  // Continues every trial from its state in the record.
  void restore_all();
  // Ends the step in which the trials are restored. Removes the facts that the record already has.
  void end_restoring(std::vector<Fact>& facts);
  // The record may lack the facts about the last commands. If the engine's first listing has a newer attempt
  // than the record, reports the missing facts.
  void catch_up(TrialIndex trial, const Observation& observation);

  // ---- Explanations

  // Returns why the next start_ready_trials() would not start the trial.
  [[nodiscard]] Explanation explain(TrialIndex trial, const Settings& settings) const;

  // False if as many attempts as allowed wait for a place on the engine, or if the engine's quota is used up.
  [[nodiscard]] bool may_start_pending() const {
    return !engine_room.is_used_up && (pending_max == 0 || trials.unplaced() < pending_max);
  }
  // True if no attempt, start, stop, collection or lookup is under way, so that nothing will free slots.
  [[nodiscard]] bool is_idle() const;
  void set_timer(Timer::Kind kind, TrialIndex trial, Seconds after, std::optional<Instant> since = {});

  const Experiment& experiment;
  const Plan& plan;
  const Until until;
  const Seconds answer_after;
  const std::size_t pending_max;

  TrialTable trials;
  DependencyTracker dependencies;
  Attempts attempts;
  Holdings holdings;
  ServiceRoom room;
  SlotRequests requests;
  StartQueue queue;
  Canaries canaries;
  FailurePolicy failures;
  OutputCollection outputs;
  CacheGate lookups;
  Restoration restoration;
  Timers timers;
  // Trials that an edit of the file removed or replaced, and whose attempts combu stops.
  std::unordered_map<TrialIndex, Departure> departures;
  std::vector<Command> commands;  // commands of this step
  // The room that the engine's quotas leave.
  struct EngineRoom {
    // True if the engine refused a start for lack of room, and no attempt has ended since then.
    bool is_used_up = false;
    // Maximum number of starts in flight. After a refusal, one start tries, and each accepted start doubles
    // the number.
    std::size_t starts_max = std::numeric_limits<std::size_t>::max();
    // Trials whose starts the engine refused. They enter the queue when an attempt has ended, or when no
    // other trial can start.
    std::vector<TrialIndex> refused = {};
  } engine_room;
  bool interrupted = false;  // true: no attempt starts, and the run does not wait for outputs

 private:
  // Puts the trials in `engine_room.refused` into the queue. Returns false if there are none.
  bool queue_refused();

  struct Over {
    TrialIndex trial = 0;
    bool is_of_shape = false;  // the failure may concern all trials of the same shape (see Canaries)
  };

  void start(TrialIndex trial, Slots slots);
  void reserve_slots(TrialIndex trial, const Slots& slots);
  void give_back_slots(TrialIndex trial);
  // Records that the trial meets the condition, for the trials that depend on it.
  void meet(TrialIndex trial, Condition condition);
  void conclude(TrialIndex trial, const AttemptEnd& end);
  void begin_anew(Fact end);
  void collect_trial_outputs(TrialIndex trial, AttemptEnd end);
  void collect(CollectCommand command);
  // `fault`: why the outputs could not be collected; empty before the first failed try to collect them.
  void report_collecting(TrialIndex trial, const AttemptEnd& end, const std::string& fault);
  void retry(TrialIndex trial, const AttemptEnd& end);
  void next_attempt(TrialIndex trial, Seconds pause);
  void await_verdict(TrialIndex trial, const AttemptEnd& end);
  void report_retrying(TrialIndex trial, const AttemptEnd& end, Next next, Seconds pause);
  void report_ready(TrialIndex trial);
  void halt_after_failures();
  void block_dependents(TrialIndex trial, Condition condition);
  void block(TrialIndex trial, TrialIndex cause, std::string why);
  // Blocks the trial because no attempt may start any more.
  void block_halted(TrialIndex trial);
  [[nodiscard]] std::string canary_text(TrialIndex canary) const;
  void spread(const Over& end);
  void spread_unmet(TrialIndex trial, Condition condition, bool is_met);
  void spread_to_shape(const Over& end);
  [[nodiscard]] bool may_look_up(TrialIndex trial) const;
  void look_up(TrialIndex trial);
  void stop_when_unused(TrialIndex trial);
  void stop_unused_services();
  void finish_unstarted(TrialIndex trial);
  void stop_service(TrialIndex trial);
  void end_killed(TrialIndex trial);
  void restore(TrialIndex trial);
  void restore_history(TrialIndex trial, const RestoredTrial& restored);
  void restore_departure(TrialIndex trial, const RestoredTrial& restored);
  void restore_alive(TrialIndex trial, const RestoredTrial& restored, const Slots& slots);

  std::vector<TrialIndex> retried_;  // trials queued for a retry in this step
  std::vector<Over> over_;           // ended trials whose effects on other trials are pending
  bool spreading_ = false;
};

}  // namespace combu::schedule
