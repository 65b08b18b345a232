#pragma once
// The planner: the only component that changes the state of a trial. The planner reads no clock, file or
// socket. Events go in; commands and facts come out. Tests can therefore compare its steps as text and
// simulate whole runs.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "combu/base.hpp"
#include "combu/engine.hpp"
#include "combu/plan.hpp"

namespace combu {

enum class TrialState : std::uint8_t {
  waiting,   // its dependencies are not met yet
  ready,     // waits for slots, or for a limit of living attempts or of starts in flight
  starting,  // combu has asked the engine to start an attempt
  running,
  retrying,    // its last attempt failed; waits for the pause before the next attempt
  collecting,  // its attempt has ended; combu collects its outputs
  succeeded,   // its attempt ended with exit code 0
  skipped,     // not started, because an equal trial has succeeded (cache hit)
  failed,      // ended with another exit code, or could not be started
  blocked,     // one of its dependencies can never be met
  // Cause::stopped: stopped by a person or by the run's deadline. Cause::none: a service whose work was done,
  // or a trial that was removed from the file.
  stopped,
};
inline constexpr std::size_t k_trial_state_count = 11;
using TrialCounts = std::array<std::size_t, k_trial_state_count>;  // index: TrialState
[[nodiscard]] std::string_view to_string(TrialState state);
// Example: "3 waiting, 12 succeeded".
[[nodiscard]] std::string counts_text(const TrialCounts& counts);
[[nodiscard]] constexpr bool is_over(TrialState state) {
  return state >= TrialState::succeeded;
}
// True if the trial's outputs are available.
[[nodiscard]] constexpr bool has_succeeded(TrialState state) {
  return state == TrialState::succeeded || state == TrialState::skipped;
}
// True if a person or the run's deadline stopped the trial before its work was done.
[[nodiscard]] constexpr bool was_stopped(TrialState state, Cause cause) {
  return state == TrialState::stopped && cause == Cause::stopped;
}
// True if the trial is over without having done its work.
[[nodiscard]] constexpr bool is_unsuccessful(TrialState state, Cause cause) {
  return state == TrialState::failed || state == TrialState::blocked || was_stopped(state, cause);
}
// True if the trial has a living attempt: one that is starting or running, and holds slots.
[[nodiscard]] constexpr bool is_alive(TrialState state) {
  return state == TrialState::starting || state == TrialState::running;
}
// True if the engine may have a living attempt of a trial whose state in the record is `on_record`. A
// `waiting` trial may have one, because a start may be missing in the record.
[[nodiscard]] constexpr bool may_have_attempt(TrialState on_record) {
  return is_alive(on_record) || on_record == TrialState::waiting;
}

// ---- Events

struct Begin {};  // only Adjust and AttemptsFound may precede it
// Containers that the engine has of a run that an earlier process began. A trial can have a running or ended
// attempt although the record has it as `waiting`. Then the trial was started, and the planner reports the
// missing fact.
struct AttemptsFound {
  std::vector<Observation> observations;
};
struct StartAnswered {
  TrialIndex trial;
  StartResult result;
};
// The engine could not start the trial. After an Interrupt, ErrorKind::cancelled means that nothing was
// begun; the start counts as if combu had not asked for it.
struct StartFailed {
  TrialIndex trial;
  Error error;
};
struct StopAnswered {
  TrialIndex trial;
  int attempt = 1;
};
struct StopFailed {
  TrialIndex trial;
  Error error;
  int attempt = 1;
};
// The outputs and logs of an ended attempt are collected, or cannot be collected.
struct Collected {
  TrialIndex trial;
  std::string fault = {};   // why the outputs are not collected; empty: they are, or there are none
  bool by_attempt = false;  // the attempt did not write its outputs; false: a later try may succeed
};
// The result of a cache lookup: the cache key of the trial and, in case of a hit, the equal trial.
struct CacheResult {
  TrialIndex trial = 0;
  std::string hash;                 // the same for equal trials; empty: could not be computed
  std::string parts;                // a JSON object with the inputs of the hash
  std::vector<std::string> inputs;  // content_digest() of each of Trial::inputs
  std::string run;   // run of the equal trial, whose outputs this trial shares; empty: cache miss
  std::string name;  // name of the equal trial
};

// The answer to CacheLookupCommand.
struct CacheLookupAnswered {
  TrialIndex trial;
  std::string done = {};  // text for users: which equal trial has succeeded; empty: cache miss
};
// Says if the engine was unreachable around the end of an attempt. If it was, the attempt counts as lost with
// the engine.
enum class Break {
  unknown,  // the engine may be about to go away
  was,
  was_not,
};
struct Observed {
  Observation observation;
  Break engine = Break::unknown;
};
// The answer to InspectCommand: the same attempt, with its start and end times if the engine has them.
struct Inspected {
  Observation observation;
};
// The driver is about to ask for a listing. The listing need not contain attempts that are started after this
// event.
struct ListingBegins {
  bool after_break = false;  // the engine was unreachable
};
struct Listed {
  std::vector<Observation> observations;  // all attempts of the run
  bool after_break = false;               // the engine was unreachable; ended attempts may be lost with it
};
// No new starts. A failed trial keeps its retries for a later process, unless `for_good` is set.
struct Interrupt {
  bool for_good = false;
};
struct Tick {};  // the time in Step::wake has come
// Settings that replace those of the experiment and the options; nullopt: no change. Attempts above a lowered
// limit keep running.
struct Adjust {
  std::optional<std::size_t> parallel_max;  // 0: no limit
  std::optional<std::size_t> starts_in_flight_max;
  std::optional<bool> paused;  // if true, nothing starts
  // The command that is about to interrupt the run's process, for its messages: "combu kill". The planner
  // does not use it.
  std::string interrupter = {};
  // Trials that another command is about to stop, and the user who runs that command. The reason of their end
  // names the user.
  std::vector<std::string> stopping = {};
  std::string stopper = {};
};
// Takes the place of a listing: attempts that the record has as alive count as alive, and other runs hold
// these slots. For a caller that uses explain() on a run that another process drives and that gives no
// commands.
struct Assumed {
  Slots held_by_others;
};
// A person has removed the run's containers, except those of `kept`. Nothing starts after this event.
struct Killed {
  std::vector<TrialIndex> kept;
};
// A person has removed these trials from the file. None of them has a living attempt.
struct Removed {
  std::vector<TrialIndex> trials;
};
// These trials wait for a new attempt; their earlier attempts do not count. None of them has a living
// attempt.
struct Reopened {
  std::vector<TrialIndex> trials;
};
using Event = std::variant<Begin, AttemptsFound, StartAnswered, StartFailed, StopAnswered, StopFailed,
                           Collected, CacheLookupAnswered, Observed, Inspected, ListingBegins, Listed,
                           Interrupt, Tick, Adjust, Assumed, Killed, Removed, Reopened>;

// ---- Commands, facts and steps

struct StartCommand {
  TrialIndex trial;
  int attempt = 1;
  // With the ids of GPUs. After an attempt that ran out of memory, the memory may be more than in the file.
  Slots slots;
};
struct StopCommand {
  TrialIndex trial;
  int attempt = 1;
};
// Gives up a start that is under way. Its answer is StartFailed.
struct GiveUpCommand {
  TrialIndex trial;
  int attempt = 1;
};
// Collects the logs or outputs of an ended attempt. The next attempt waits for the answer, because its
// container replaces this one.
struct CollectCommand {
  TrialIndex trial;
  int attempt = 1;
  bool tail = false;     // collect the end of the log, to show to the user
  bool outputs = false;  // collect the outputs
  bool failed = false;   // the attempt failed; required outputs may be missing
};
// Looks up if an equal trial has succeeded. In case of a hit, this trial shares that trial's outputs.
struct CacheLookupCommand {
  TrialIndex trial;
};
// Asks for the times at which an attempt began and ended. The observation of the end is late, or the attempt
// may have ended before combu stopped it.
struct InspectCommand {
  TrialIndex trial;
  Observation observation;
  int attempt = 1;
};
using Command = std::variant<StartCommand, StopCommand, GiveUpCommand, CollectCommand, CacheLookupCommand,
                             InspectCommand>;

// The party that stopped an attempt. The reason of its end follows the word "stopped": "by alice with `combu
// stop`", "from outside".
enum class Stopper : std::uint8_t {
  none,
  person,
  outside,  // a person or program other than combu
  run,      // for example, the run's deadline
};
inline constexpr std::size_t k_stopper_count = 4;
[[nodiscard]] std::string_view to_string(Stopper stopper);

// The consequence of an attempt's end.
enum class Next : std::uint8_t {
  none,      // nothing to report
  attempt,   // another attempt follows after the pause
  due,       // another attempt waits to be started
  verdict,   // another attempt follows if the engine is restarting
  collect,   // collecting the outputs failed and is retried; `next_why` is the reason
  spent,     // no attempts are left
  given_up,  // attempts are left, but none follows; `next_why` is the reason
  lost,      // the container was removed before its outputs were collected
};
inline constexpr std::size_t k_next_count = 8;
[[nodiscard]] std::string_view to_string(Next next);

// Details of an attempt's end, in addition to its reason.
struct EndDetails {
  Stopper stopper = Stopper::none;
  std::string outputs_fault = {};  // of a failed attempt: why its outputs are missing, too
  Next next = Next::none;
  Seconds pause{0};
  std::string next_why = {};
  bool operator==(const EndDetails&) const = default;
};
// Returns the text of an end for users: "exit code 1; attempt 2 in 5.0 s". `attempt` is the attempt that
// ended.
[[nodiscard]] std::string reason_text(const std::string& reason, const EndDetails& details, int attempt);
// Returns the same text for a place that also shows the state: omits "stopped" if the trial is `stopped`.
[[nodiscard]] std::string reason_text_beside(TrialState state, const std::string& reason,
                                             const EndDetails& details, int attempt);
// The same for a type with these members, such as Fact.
template <class End>
[[nodiscard]] std::string reason_text(const End& end) {
  return reason_text(end.reason, end.details, end.attempt);
}
template <class End>
[[nodiscard]] std::string reason_text_beside_state(const End& end) {
  return reason_text_beside(end.state, end.reason, end.details, end.attempt);
}

// One change of a trial. A fact reports one of these:
// - The trial's state changed.
// - A running trial became healthy (`healthy`).
// - A starting or running attempt is being stopped, for `cause`.
//
// `ready` is also reported when a start is rolled back, and for a retry that has to wait.
struct Fact {
  TrialIndex trial = 0;
  TrialState state = TrialState::waiting;
  int attempt = 1;               // the attempt that the fact is about
  Cause cause = Cause::none;     // if failed, stopped, retrying, or collecting after a failure
  bool healthy = false;          // the state is running, and the health check passes
  bool ran = false;              // if over: the trial was started
  bool is_reset = false;         // if retrying or waiting: the trial's attempts up to this fact do not count
  std::optional<int> exit_code;  // of an attempt that ran and ended
  std::string reason;            // for users; if failed, stopped, retrying, blocked or skipped
  EndDetails details = {};       // as `reason`, and if collecting
  std::optional<TrialIndex> root;  // if blocked: the trial that started the chain of blocked trials
  Instant at{};                    // step()'s `now`, or the time by the engine's clock
  std::string id;                  // if running: the engine's id, if known
  Slots slots;                     // if starting or ready, like `ready_at`
  Instant ready_at{};              // when the last dependency was met; the epoch: from the beginning
  std::optional<Usage> usage;      // if over; added by drive(), because the planner does not know it
};
// True if the fact reports only that an attempt is being stopped, and for which cause.
[[nodiscard]] inline bool tells_of_stop(const Fact& fact) {
  return is_alive(fact.state) && fact.cause != Cause::none;
}

// True if the attempt failed or was stopped, and the trial is over or waits for its next attempt.
[[nodiscard]] inline bool is_failure(const Fact& fact) {
  return fact.state == TrialState::failed || fact.state == TrialState::retrying ||
         was_stopped(fact.state, fact.cause);
}

struct Step {
  std::vector<Command> commands;
  std::vector<Fact> facts;
  std::optional<Instant> wake;  // when the planner needs a Tick if no event comes before; nullopt: never
};

enum class Until {
  // Every trial has been started or can never start, and no running trial is monitored (see is_monitored()).
  started,
  // Every trial except the services is over, and combu has stopped the services. Trials that are not marked
  // as services but only have to run or be healthy for others keep running.
  ended,
};

// Why combu stops an attempt after an edit of the experiment file, and what follows for the trial.
enum class Departure : std::uint8_t {
  no,
  removed,   // the trial is over
  replaced,  // the trial waits for a new attempt, as the file describes it
};
inline constexpr std::size_t k_departure_count = 3;
[[nodiscard]] std::string_view to_string(Departure departure);
[[nodiscard]] std::string_view reason_of(Departure departure);  // the reason of the attempt's end, for users

// The state in which an earlier process left a trial. If the trial is `ready`, it waits for a further
// attempt, and the other members describe its last attempt.
struct RestoredTrial {
  TrialState state = TrialState::waiting;
  int attempt = 1;
  Cause cause = Cause::none;  // this member and those up to `root`: as in Fact
  std::optional<int> exit_code;
  std::string reason;
  EndDetails details = {};
  std::optional<TrialIndex> root;
  bool was_started = false;  // true if any attempt ran or was healthy
  bool was_healthy = false;
  std::optional<Instant> ran_at;                  // when its last attempt began to run
  std::optional<Instant> over_at = std::nullopt;  // when the trial ended
  Cause stop_cause = Cause::none;                 // why combu was stopping its attempt
  std::vector<Cause> earlier;                     // why each earlier attempt failed
  Bytes memory{};                                 // if ready: the memory of the next attempt
  bool anew = false;                    // a person asked to run the trial again; skips the cache lookup
  Departure departure = Departure::no;  // of its last attempt, if that is starting or running
  Slots slots;                          // held by its living attempt; empty: as the file says
};

struct PlannerOptions {
  std::size_t starts_in_flight_max = 8;
  Until until = Until::started;
  // Time from an attempt's start_deadline until combu gives up an unanswered start. A slow engine answers
  // within this time.
  Seconds answer_after{15};
  std::optional<Slots> capacity;  // shared by all runs on the engine; nullopt: not limited
  std::vector<Gpu> gpus;          // properties of the GPUs in `capacity`, as far as known
  bool looks_up_cache = false;    // trials with `cache` get a CacheLookupCommand before they start
  // State of each trial by index; empty: the run is new. Otherwise a run continues: nothing starts before a
  // listing shows the state of its attempts. Attempts that ended while nothing watched may be lost with their
  // host.
  std::vector<RestoredTrial> restored;
  std::optional<Instant> began_at;         // if the run continues: the start of its deadline
  std::optional<Instant> engine_began_at;  // Facts::began_at
};

// Why a trial does not start. `kind` is the first obstacle in the order of Kind.
struct Explanation {
  enum class Kind : std::uint8_t {
    none,          // the trial is over, or an attempt of it is under way
    retry,         // waits for the pause before its next attempt
    dependencies,  // the dependencies in `unmet` are not met
    canary,        // `first`, the canary of its shape, must succeed
    lookup,        // waits for a cache lookup
    interrupted,   // the run is interrupted: nothing starts
    listing,       // waits for the engine's first listing
    paused,
    place,      // the limit of living attempts (parallel_max) is reached
    slots,      // the slots that it needs are not free
    overtaken,  // waits for `first`, which has been overtaken k_overtakes_max times and needs the same slots
    room,       // the trial is a service that would leave too few slots for its dependents
    turn,       // `first` starts before it; nullopt: other trials do
    starts,     // the limit of starts in flight is reached
    nothing,    // starts next, as soon as another start may be in flight
  };
  Kind kind = Kind::none;
  std::vector<Edge> unmet = {};
  std::optional<TrialIndex> first = std::nullopt;
  bool operator==(const Explanation&) const = default;
};

// The settings in force; Adjust changes them.
struct Settings {
  std::size_t parallel_max = 0;
  std::size_t starts_in_flight_max = PlannerOptions{}.starts_in_flight_max;
  bool paused = false;
  void take(const Adjust& adjust);
};

// Returns the state of a trial from its container alone.
[[nodiscard]] TrialState state_of(const Observation& container);

// The end of an attempt that no process of its run observed, as far as its container shows. The container may
// be gone.
struct Ending {
  Cause cause = Cause::none;
  std::string reason;  // as in Fact, like `details`; empty if it succeeded
  EndDetails details = {};
};
[[nodiscard]] Ending ending_of(const Observation& ended);
[[nodiscard]] TrialState state_of(const Ending& ending);

// True if the trial makes the run fail: it was unsuccessful and is not a stopped service.
[[nodiscard]] inline bool fails_run(const Trial& trial, TrialState state, Cause cause) {
  return is_unsuccessful(state, cause) && !(trial.service && state == TrialState::stopped);
}

// True if the run's owner must stay while the trial runs: for outputs, retries, its timeout or the run's
// deadline.
[[nodiscard]] bool is_monitored(const Experiment& experiment, const Trial& trial);

// Returns an error for each trial that can never start. Such a trial needs more slots than `capacity` holds
// beside the services that run with it (Until::started: beside all services). `gpus` are the known GPUs in
// `capacity`. Trials with the same need share one error.
[[nodiscard]] std::vector<Error> check_slots(const Experiment& experiment, const Slots& capacity,
                                             std::span<const Gpu> gpus, Until until = Until::ended);

// A person has removed the run's containers, except the containers of the trials that `kept` names. Returns
// the facts that end every other open trial. `trials` are the names of the run's trials, in the order of
// `restored`.
[[nodiscard]] std::vector<Fact> facts_of_kill(const RunId& run, std::span<const std::string> trials,
                                              std::vector<RestoredTrial> restored,
                                              std::span<const std::string> kept, Instant now);

// A person's edits of a run's trials. None of these trials has a living attempt.
struct TrialEdits {
  std::vector<TrialIndex> removed = {};   // removed from the run's file
  std::vector<TrialIndex> reopened = {};  // wait for a new attempt
};
[[nodiscard]] std::vector<Fact> facts_of_edits(const RunId& run, std::vector<RestoredTrial> restored,
                                               TrialEdits edits, Instant now);

// The state of a run that no process drives, as its engine reports it.
struct Unattended {
  std::vector<Observation> listed;  // all attempts of the run
  // Attempts that ended, or that run although the record does not say so. With the times by the engine's
  // clock.
  std::vector<Observation> changed;
  std::vector<std::string> stopped = {};                  // trials that `stopper` has just stopped
  std::string stopper = {};                               // a user's name
  bool is_final = false;                                  // no process will retry failed trials
  std::optional<Instant> engine_began_at = std::nullopt;  // Facts::began_at
};
// Compares the engine with the record, and returns the facts that the record lacks. These concern attempts
// that run or have ended, missing containers, and trials that these ends block. Their times are the engine's.
// Starts of further attempts are left to the next process that drives the run. Pure: equal arguments give
// equal results.
[[nodiscard]] std::vector<Fact> reconcile(const RunId& run, const Experiment& experiment, const Plan& plan,
                                          std::vector<RestoredTrial> restored, const Unattended& seen,
                                          Instant now);

// Returns the end of an attempt whose run is not on record, as far as the container shows it. Returns nullopt
// if the attempt has not ended.
[[nodiscard]] std::optional<Fact> end_of_unrecorded(const Observation& seen);

// True if all trials are over after `facts` are applied to `restored`.
[[nodiscard]] bool are_all_over(std::span<const RestoredTrial> restored, std::span<const Fact> facts);

// The state of a run that another process, or no process, drives.
struct RunSituation {
  const RunId& run;
  const Experiment& experiment;
  const Plan& plan;
  const std::vector<RestoredTrial>& restored;  // of all trials
  Settings settings = {};                      // in force
  std::optional<Slots> capacity = {};  // nullopt: not known; a trial that needs slots then waits for them
  Slots held_by_others = {};           // by attempts of other runs
  Instant now{};
};
// Returns why a trial of the run does not start, by the rules of Planner::explain(). If the limit of starts
// in flight is reached, returns `starts` instead of `turn` and `nothing`. The process that drives the run may
// know more. Cache lookups and numbers of overtakes are not on record; waiting trials count as overtaken
// k_overtakes_max times.
[[nodiscard]] Explanation explain(const RunSituation& situation, TrialIndex trial);

// Not thread-safe. `experiment` and `plan` must outlive the planner.
//
// Order of starts: among the ready trials the highest priority starts first, then the order of
// Experiment::order. A trial starts as soon as its slots are free. Experiment::parallel_max, or
// Adjust::parallel_max in its place, limits the living attempts, services not counted.
//
// Overtaking: if a trial waits for slots, later trials that fit may start before it, even if they use slots
// that it needs. After k_overtakes_max such starts, these trials wait until the first trial has started.
// Exception: services or other runs hold the slots that the first trial needs, because they may hold them for
// ever. Observations of other runs' attempts (from a wider selector) tell the planner which slots these hold.
//
// GPUs: each attempt gets GPUs by id. If another process has just claimed one of them, that process keeps it,
// and the trial waits again.
//
// Outputs: when an attempt has ended, combu collects its outputs before the trial counts as over. Failed
// collections are retried as long as the run has other work.
//
// Retries and stops: Trial::retries says if another attempt follows a failed one. combu stops an attempt that
// exceeds its timeout, and one whose trial was removed or replaced in the file. The next attempt waits until
// the old one has ended.
//
// Cache: combu looks up a trial with `cache` as soon as its inputs are known, even if other dependencies are
// unmet. In case of a hit the trial is `skipped`, which counts as a success for its dependents. No service
// starts while lookups are in flight, because its dependents may all be skipped. A trial that only has to run
// or be healthy for others is not looked up.
//
// Limits: after Experiment::failures_max failed trials nothing more starts; running trials go on. When the
// deadline passes, combu stops every attempt.
class Planner {
 public:
  static constexpr std::size_t k_overtakes_max = 32;
  // Maximum number of retries after lost hosts. These do not count against Retries::max.
  static constexpr int k_losses_max = 10;

  Planner(RunId run, const Experiment& experiment, const Plan& plan, PlannerOptions options);
  ~Planner();
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  // Handles one event at time `now`, which must never decrease. Takes time linear in the number of trials
  // that change, independent of the size of the experiment (Listed: linear in the listing and the trials).
  // Repeated, late and reordered observations have no effect: the state of an attempt only goes forward.
  [[nodiscard]] Step step(const Event& event, Instant now);

  [[nodiscard]] bool done() const;
  // True if the planner may still start an attempt, as far as it can know.
  [[nodiscard]] bool may_start_more() const;
  [[nodiscard]] TrialState state(TrialIndex trial) const;
  [[nodiscard]] const std::array<std::size_t, k_trial_state_count>& counts() const;
  [[nodiscard]] std::size_t starts_in_flight() const;
  // Returns why the trial did not start in the last step(). Uses the same code as step().
  [[nodiscard]] Explanation explain(TrialIndex trial) const;
  // Returns the number of awaited trials (see is_waited_for()) that are not over.
  [[nodiscard]] std::size_t unfinished() const;
  // True if the run waits for the trial's end. False for services, and for trials that only have to run or be
  // healthy for others.
  [[nodiscard]] bool is_waited_for(TrialIndex trial) const;
  // Returns why the outputs of `collecting` trials are not collected yet; empty if no try has failed. If the
  // run has no other work for a while, done() may be true although such trials are left. A later process may
  // collect their outputs.
  [[nodiscard]] const std::string& undelivered() const;
  // held(): slots of this run's attempts. held_by_others(): slots of other runs' attempts.
  [[nodiscard]] const Slots& held() const;
  [[nodiscard]] const Slots& held_by_others() const;
  [[nodiscard]] const Settings& settings() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Collects the outputs of a run that no process drives, for the last time, because a command is about to
// remove its containers. Each attempt that is `collecting` gets one command; a failure is final. `experiment`
// and `plan` must outlive the object.
class LastCollection {
 public:
  // `restored`: of all trials.
  LastCollection(const RunId& run, const Experiment& experiment, const Plan& plan,
                 std::vector<RestoredTrial> restored, Instant now);
  [[nodiscard]] const std::vector<CollectCommand>& commands() const { return commands_; }
  // Returns the facts that the record lacks after the answer to one of the commands. Starts of further
  // attempts are left to the next process that drives the run.
  [[nodiscard]] std::vector<Fact> facts_of(const Collected& answer, Instant now);

 private:
  Planner planner_;
  std::vector<CollectCommand> commands_;
};

}  // namespace combu
