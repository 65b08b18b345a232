#pragma once
// The planner: the only component that changes the state of a trial. The planner receives events, returns
// commands and facts, and reads no clock, file or socket. Tests can therefore compare the planner's steps as
// text and simulate whole runs.

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
  waiting,   // the trial's dependencies are not met yet
  ready,     // waits because slots are not free, or too many attempts are running or being started
  starting,  // combu has asked the engine to start an attempt, which may wait for a place on the engine
  running,
  retrying,    // the last attempt failed, and the pause before the next attempt is not over
  collecting,  // the attempt has ended; combu collects the trial's outputs
  succeeded,   // the attempt ended with exit code 0
  skipped,     // the trial was not started, because an equal trial has succeeded (cache hit)
  failed,      // the last attempt failed; for example, its exit code was not 0, or it could not be started
  blocked,     // a dependency of the trial can never be met
  // With Cause::stopped, a person or the run's deadline stopped the trial. With Cause::none, the trial was
  // removed from the file, or is a service that no trial needs any more.
  stopped,
};
inline constexpr std::size_t k_trial_state_count = 11;
using TrialCounts = std::array<std::size_t, k_trial_state_count>;  // index: TrialState
[[nodiscard]] std::string_view to_string(TrialState state);
// Returns the number of trials in each state as text, for example "3 waiting, 12 succeeded".
[[nodiscard]] std::string counts_text(const TrialCounts& counts);
// True if the trial has succeeded, was skipped, failed, is blocked or was stopped.
[[nodiscard]] constexpr bool is_over(TrialState state) {
  return state >= TrialState::succeeded;
}
// True if the trial's outputs are available.
[[nodiscard]] constexpr bool has_succeeded(TrialState state) {
  return state == TrialState::succeeded || state == TrialState::skipped;
}
// True if a person or the run's deadline stopped the trial.
[[nodiscard]] constexpr bool was_stopped(TrialState state, Cause cause) {
  return state == TrialState::stopped && cause == Cause::stopped;
}
// True if the trial failed, is blocked, or was stopped by a person or by the run's deadline.
[[nodiscard]] constexpr bool is_unsuccessful(TrialState state, Cause cause) {
  return state == TrialState::failed || state == TrialState::blocked || was_stopped(state, cause);
}
// True if the trial has a living attempt: an attempt that is starting or running, and holds slots.
[[nodiscard]] constexpr bool is_alive(TrialState state) {
  return state == TrialState::starting || state == TrialState::running;
}
// `on_record` is the state of a trial in the record. Returns true if the engine may have a living attempt of
// this trial. Even a trial on record as `waiting` may have a living attempt, because its start may be missing
// from the record.
[[nodiscard]] constexpr bool may_have_attempt(TrialState on_record) {
  return is_alive(on_record) || on_record == TrialState::waiting;
}

// ---- Events

struct Begin {};  // the run begins; only Adjust and AttemptsFound may precede this event
// An earlier process began the run; `observations` describes the run's containers on the engine. A trial that
// is `waiting` in the record can have a running or ended attempt. The planner then reports the start that is
// missing from the record.
struct AttemptsFound {
  std::vector<Observation> observations;
};
struct StartAnswered {
  TrialIndex trial;
  StartResult result;
};
// The engine could not start the trial. After an Interrupt, ErrorKind::cancelled means that the engine has
// not begun this start. The planner then ignores the failure, and a later process starts the attempt again.
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
// The answer to CollectCommand: the outputs and logs of an ended attempt are collected, or could not be
// collected.
struct Collected {
  TrialIndex trial;
  std::string fault = {};  // why outputs are missing; empty if the trial has none, or all are collected
  // True if the attempt did not write its outputs; false if a later try to collect the outputs may succeed.
  bool by_attempt = false;
  bool is_lost = false;  // the attempt was lost with its host before its outputs were collected
};
// The result of a cache lookup: the cache key of the trial and, in case of a hit, the equal trial.
struct CacheResult {
  TrialIndex trial = 0;
  std::string hash;   // cache key, the same for equal trials; empty if combu could not compute the key
  std::string parts;  // a JSON object with the values from which the hash is computed
  std::vector<std::string> inputs;  // content_digest() of each element of Trial::inputs
  std::string run;   // run of the equal trial, whose outputs this trial shares; empty: cache miss
  std::string name;  // name of the equal trial
};

// The answer to CacheLookupCommand.
struct CacheLookupAnswered {
  TrialIndex trial;
  std::string done = {};  // name and run of the equal trial as text for users; empty: cache miss
};
// Was the engine unreachable around the moment when an attempt ended? If it was, the attempt counts as lost
// with the engine.
enum class Break {
  unknown,  // the engine was reachable, but it may be about to restart
  was,
  was_not,
};
struct Observed {
  Observation observation;
  Break engine = Break::unknown;
};
// The answer to InspectCommand: the attempt that the command names, with its start and end times if the
// engine has them.
struct Inspected {
  Observation observation;
};
// The driver (see drive()) is about to request a listing from the engine. The listing may lack attempts that
// are started after this event.
struct ListingBegins {
  bool after_break = false;  // true if the engine was unreachable before this listing
};
struct Listed {
  std::vector<Observation> observations;  // all attempts of the run
  // True if the engine was unreachable before this listing, so that ended attempts may count as lost with the
  // engine.
  bool after_break = false;
};
// The run is interrupted: no further attempt starts. A later process may retry failed trials, unless
// `for_good` is set.
struct Interrupt {
  bool for_good = false;
};
struct Tick {};  // the moment Step::wake has come
// Replaces settings of the experiment file or the command line; nullopt: no change. If a limit is lowered,
// attempts beyond the new limit keep running.
struct Adjust {
  std::optional<std::size_t> parallel_max;  // 0: no limit
  std::optional<std::size_t> starts_in_flight_max;
  std::optional<bool> paused;  // if true, no attempt starts
  // Name of the command that is about to interrupt the run's process, such as "combu kill". The interrupted
  // process uses this name in its messages; the planner ignores the name.
  std::string interrupter = {};
  // Names of the trials that another command is about to stop, and the user (`stopper`) who runs that
  // command. The planner names this user in the reason for the end of each such trial.
  std::vector<std::string> stopping = {};
  std::string stopper = {};
};
// Replaces a listing: the planner assumes that the attempts that are alive in the record are alive, and that
// other runs hold the slots `held_by_others`. This event is for a caller that only calls explain(), about a
// run that another process drives. Such a caller ignores the planner's commands.
struct Assumed {
  Slots held_by_others;
};
// A person has removed the run's containers, except the containers of the trials in `kept`. No attempt starts
// after this event.
struct Killed {
  std::vector<TrialIndex> kept;
};
// A person has removed these trials from the file. None of these trials has a starting or running attempt.
struct Removed {
  std::vector<TrialIndex> trials;
};
// These trials wait for a new attempt, as if they had never been started. None of these trials has a starting
// or running attempt.
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
  // Slots of the attempt, with the ids of its GPUs. If an earlier attempt ran out of memory, the memory may
  // be larger than in the experiment file.
  Slots slots;
};
struct StopCommand {
  TrialIndex trial;
  int attempt = 1;
};
// Gives up a start that is under way. The driver answers this command with StartFailed.
struct GiveUpCommand {
  TrialIndex trial;
  int attempt = 1;
};
// Collects the logs or outputs of an ended attempt. The trial's next attempt starts only after the answer,
// because its container replaces the container of the ended attempt.
struct CollectCommand {
  TrialIndex trial;
  int attempt = 1;
  bool tail = false;     // if true, also collect the end of the log, to show it to the user
  bool outputs = false;  // collect the outputs
  bool failed = false;   // true if the attempt failed: a missing required output is then no error
};
// Looks up whether an equal trial has succeeded. In case of a hit, `trial` shares the outputs of the equal
// trial.
struct CacheLookupCommand {
  TrialIndex trial;
};
// Asks for the times at which an attempt began and ended. The planner needs these times if a listing showed
// the end of the attempt, or if the attempt ended while combu was stopping it.
struct InspectCommand {
  TrialIndex trial;
  Observation observation;
  int attempt = 1;
};
using Command = std::variant<StartCommand, StopCommand, GiveUpCommand, CollectCommand, CacheLookupCommand,
                             InspectCommand>;

// The party that stopped an attempt. In texts for users, the word "stopped" precedes the reason of the end,
// for example "stopped by alice with `combu stop`".
enum class Stopper : std::uint8_t {
  none,
  person,
  outside,  // a person or program that did not use combu
  run,      // the run itself, for example at its deadline
};
inline constexpr std::size_t k_stopper_count = 4;
[[nodiscard]] std::string_view to_string(Stopper stopper);

// The consequence of an attempt's end.
enum class Next : std::uint8_t {
  none,     // nothing to report
  attempt,  // another attempt follows after EndDetails::pause
  due,      // another attempt waits to be started
  verdict,  // another attempt follows if combu finds that a restart of the engine ended this attempt
  // The collection of the outputs failed for the reason in `next_why`; combu tries it again.
  collect,
  spent,     // all retries of the trial are used up
  given_up,  // retries are left, but the trial is not retried, for the reason in `next_why`
  lost,      // the container was removed before its outputs were collected
};
inline constexpr std::size_t k_next_count = 8;
[[nodiscard]] std::string_view to_string(Next next);

// Details of an attempt's end, in addition to its reason.
struct EndDetails {
  Stopper stopper = Stopper::none;
  std::string outputs_fault = {};  // why the outputs of a failed attempt are missing
  Next next = Next::none;
  Seconds pause{0};
  std::string next_why = {};
  bool operator==(const EndDetails&) const = default;
};
// Returns the text of an attempt's end for users, for example "exit code 1; attempt 2 in 5.0 s". `attempt` is
// the number of the ended attempt.
[[nodiscard]] std::string reason_text(const std::string& reason, const EndDetails& details, int attempt);
// Returns the text of reason_text(), but without the word "stopped" if the trial is `stopped`. Use this
// function where the text is shown beside the trial's state.
[[nodiscard]] std::string reason_text_beside(TrialState state, const std::string& reason,
                                             const EndDetails& details, int attempt);
// Like the two functions above, for a type that has the members `state`, `reason`, `details` and `attempt`,
// such as Fact.
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
// - combu is stopping a starting or running attempt; `cause` says why.
//
// A fact also reports the state `ready` when a start is taken back, and when a retry has to wait for its
// start.
struct Fact {
  TrialIndex trial = 0;
  TrialState state = TrialState::waiting;
  int attempt = 1;            // number of the attempt that the fact is about
  Cause cause = Cause::none;  // set if failed, stopped, retrying, or collecting after a failure
  bool healthy = false;       // true if the state is running and the health check passes
  bool ran = false;           // true if an attempt has run; meaningful only if the trial is over
  // If retrying or waiting: true if the trial continues as if it had never been started.
  bool is_reset = false;
  std::optional<int> exit_code;  // exit code of an attempt that ran and ended
  // Reason of the state, as text for users; set if failed, stopped, retrying, blocked or skipped.
  std::string reason;
  EndDetails details = {};  // set if `reason` is set or the state is collecting
  // If blocked: the trial that caused the block, directly or through other blocked trials.
  std::optional<TrialIndex> root;
  // Moment of the change: the argument `now` of step(), or a time by the engine's clock.
  Instant at{};
  std::string id;      // the engine's id of a running attempt, if known
  Slots slots;         // slots of the attempt; set, like `ready_at`, if starting or ready
  Instant ready_at{};  // when the last dependency was met; the epoch if all were met when the run began
  // Set if the attempt has ended. drive() adds the usage, because the planner does not observe usage.
  std::optional<Usage> usage;
};
// True if the fact reports only that an attempt is being stopped, and for which cause.
[[nodiscard]] inline bool reports_stop(const Fact& fact) {
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
  std::optional<Instant> wake;  // when the driver must send a Tick if no event comes earlier; nullopt: never
};

enum class Until {
  // Every trial has been started or can never start, and no running trial is monitored (see is_monitored()).
  started,
  // Every trial for which the run waits (see Planner::is_waited_for()) is over, and combu has stopped the
  // services. Trials on which others depend only with the condition `started` or `healthy` may still be
  // running.
  ended,
};

// Why combu stops an attempt after an edit of the experiment file, and what follows for the trial.
enum class Departure : std::uint8_t {
  no,
  removed,   // the trial was removed from the file, and is over
  replaced,  // the trial was changed in the file, and waits for a new attempt
};
inline constexpr std::size_t k_departure_count = 3;
[[nodiscard]] std::string_view to_string(Departure departure);
[[nodiscard]] std::string_view reason_of(Departure departure);  // the reason of the attempt's end, for users

// The state in which an earlier process left a trial. A `ready` trial waits for its next attempt; the other
// members then describe the trial's last attempt.
struct RestoredTrial {
  TrialState state = TrialState::waiting;
  int attempt = 1;
  Cause cause = Cause::none;  // `cause` and the members down to `root` mean the same as in Fact
  std::optional<int> exit_code;
  std::string reason;
  EndDetails details = {};
  std::optional<TrialIndex> root;
  bool was_started = false;  // true if any attempt ran or was healthy
  bool was_healthy = false;
  std::optional<Instant> ran_at;                  // when the trial's last attempt began to run
  std::optional<Instant> over_at = std::nullopt;  // when the trial ended
  // Why combu was stopping the trial's attempt; Cause::none if combu was not stopping the attempt.
  Cause stop_cause = Cause::none;
  std::vector<Cause> earlier;  // why each earlier attempt failed
  Bytes memory{};              // memory of the next attempt of a `ready` trial
  bool anew = false;           // true: a person asked to run the trial again, without a cache lookup
  // Why combu is stopping the last attempt after an edit of the file, if that attempt is starting or running.
  Departure departure = Departure::no;
  Slots slots;  // slots of the trial's living attempt; empty: the slots in the file
};

struct PlannerOptions {
  std::size_t starts_in_flight_max = 8;
  std::size_t pending_max = 0;  // Facts::pending_max
  Until until = Until::started;
  // Seconds from the moment when an attempt's start_deadline has passed, or when an attempt that shares a
  // container is to be stopped, until combu gives up an unanswered start. Even a slow engine answers within
  // this time.
  Seconds answer_after{15};
  std::optional<Slots> capacity;   // slots that all runs on the engine share; nullopt: not limited
  std::vector<Gpu> gpus;           // known properties of the GPUs in `capacity`
  std::vector<StartLimit> limits;  // Engine::limits()
  bool looks_up_cache = false;     // trials with `cache` get a CacheLookupCommand before they start
  // State of each trial by index; empty: the run is new. If the run continues, no attempt starts before a
  // listing shows the state of the run's attempts. Attempts that ended while no process drove the run may
  // count as lost with their host.
  std::vector<RestoredTrial> restored;
  std::optional<Instant> began_at;         // when a continued run began; its deadline counts from this moment
  std::optional<Instant> engine_began_at;  // Facts::began_at
};

// Why a trial does not start. `kind` is the first obstacle that applies, in the order of the enumeration
// Kind.
struct Explanation {
  enum class Kind : std::uint8_t {
    none,          // the trial is over, or has an attempt under way
    retry,         // the pause before the trial's next attempt is not over
    dependencies,  // the dependencies in `unmet` are not met
    canary,        // `first`, the canary, must succeed before similar trials start
    lookup,        // the trial waits for a cache lookup
    interrupted,   // the run is interrupted: nothing starts
    listing,       // the run waits for the engine's first listing
    paused,
    place,      // the limit of starting and running attempts (parallel_max) is reached
    limit,      // the limit of the engine for attempts of such trials is reached (StartLimit)
    slots,      // the slots that the trial needs are not free
    overtaken,  // the trial waits for trial `first`, which k_overtakes_max later trials have overtaken
    room,       // the trial is a service that would leave too few slots for the trials that need it
    turn,       // another trial must start first: trial `first`, if known
    starts,     // the limit of starts in flight is reached
    pending,    // the limit of attempts that wait for a place on the engine is reached
    nothing,    // no obstacle: the trial starts next, when the limit of starts in flight allows
  };
  Kind kind = Kind::none;
  std::vector<Edge> unmet = {};
  std::optional<TrialIndex> first = std::nullopt;
  bool operator==(const Explanation&) const = default;
};

// The settings in force, which the event Adjust changes.
struct Settings {
  std::size_t parallel_max = 0;
  std::size_t starts_in_flight_max = PlannerOptions{}.starts_in_flight_max;
  bool paused = false;
  void take(const Adjust& adjust);
};

// Returns the state of a trial, judged only by its container.
[[nodiscard]] TrialState state_of(const Observation& container);

// The end of an attempt, as far as its container shows it. No process of the run observed this end, and the
// container may have been removed since.
struct Ending {
  Cause cause = Cause::none;
  std::string reason;  // `reason` and `details`: as in Fact; empty if the attempt succeeded
  EndDetails details = {};
};
[[nodiscard]] Ending ending_of(const Observation& ended);
[[nodiscard]] TrialState state_of(const Ending& ending);

// True if the trial makes the run fail: it was unsuccessful and is not a stopped service.
[[nodiscard]] inline bool fails_run(const Trial& trial, TrialState state, Cause cause) {
  return is_unsuccessful(state, cause) && !(trial.service && state == TrialState::stopped);
}

// True if the run's owner must stay while the trial runs: for outputs, retries, the trial's timeout or the
// run's deadline, or because the trial has no container of its own that keeps its log.
[[nodiscard]] bool is_monitored(const Experiment& experiment, const Trial& trial);

// Returns an error for each trial that can never start. Such a trial needs more slots than the services that
// run at the same time leave free in `capacity`. With Until::started, all services run at the same time.
// `gpus` are the known GPUs in `capacity`. Trials that need equal slots share one error.
[[nodiscard]] std::vector<Error> check_slots(const Experiment& experiment, const Slots& capacity,
                                             std::span<const Gpu> gpus, Until until = Until::ended);

// A person has removed the run's containers, except the containers of the trials that `kept` names. Returns
// the facts that end every trial that is not over and that `kept` does not name. `trials` are the names of
// the run's trials, in the order of `restored`.
[[nodiscard]] std::vector<Fact> facts_of_kill(const RunId& run, std::span<const std::string> trials,
                                              std::vector<RestoredTrial> restored,
                                              std::span<const std::string> kept, Instant now);

// A person's edits of a run's trials. None of the edited trials has a starting or running attempt.
struct TrialEdits {
  std::vector<TrialIndex> removed = {};   // trials that were removed from the run's file
  std::vector<TrialIndex> reopened = {};  // trials that wait for a new attempt
};
[[nodiscard]] std::vector<Fact> facts_of_edits(const RunId& run, std::vector<RestoredTrial> restored,
                                               TrialEdits edits, Instant now);

// The state of a run that no process drives, as its engine reports it.
struct Unattended {
  std::vector<Observation> listed;  // all attempts of the run
  // Attempts whose end or start is missing from the record, with their times by the engine's clock.
  std::vector<Observation> changed;
  std::vector<std::string> stopped = {};                  // trials that user `stopper` has just stopped
  std::string stopper = {};                               // a user's name
  bool is_final = false;                                  // true: no process will retry failed trials
  std::optional<Instant> engine_began_at = std::nullopt;  // Facts::began_at
};
// Compares the engine with the record, and returns the facts that the record lacks. The facts concern running
// and ended attempts, removed containers, and trials that are blocked by ended trials. The times in these
// facts are by the engine's clock. Retries are not started: the next process that drives the run starts them.
// Pure: equal arguments give equal results.
[[nodiscard]] std::vector<Fact> reconcile(const RunId& run, const Experiment& experiment, const Plan& plan,
                                          std::vector<RestoredTrial> restored, const Unattended& seen,
                                          Instant now);

// Returns the end of an attempt whose run is not on record, as far as the engine reports it. Returns nullopt
// if the attempt has not ended.
[[nodiscard]] std::optional<Fact> end_of_unrecorded(const Observation& seen);

// True if all trials are over after `facts` are applied to `restored`.
[[nodiscard]] bool are_all_over(std::span<const RestoredTrial> restored, std::span<const Fact> facts);

// The state of a run that this process does not drive.
struct RunSituation {
  const RunId& run;
  const Experiment& experiment;
  const Plan& plan;
  const std::vector<RestoredTrial>& restored;  // of all trials
  Settings settings = {};                      // in force
  std::optional<Slots> capacity = {};          // nullopt: unknown, so slots count as not free
  Slots held_by_others = {};                   // slots that attempts of other runs hold
  std::vector<StartLimit> limits = {};         // Engine::limits(), if known
  Instant now{};
};
// Returns why a trial of the run does not start, by the rules of Planner::explain(). If the limit of starts
// in flight is reached, returns `starts` where Planner::explain() would return `turn` or `nothing`. The
// process that drives the run may know another obstacle, because the record contains neither cache lookups
// nor numbers of overtakes. This function assumes that waiting trials have been overtaken k_overtakes_max
// times.
[[nodiscard]] Explanation explain(const RunSituation& situation, TrialIndex trial);

// Not thread-safe. `experiment` and `plan` must outlive the planner.
//
// Order of starts: the ready trial with the highest priority starts first. Among equal priorities,
// Experiment::order decides. A trial starts as soon as its slots are free. Experiment::parallel_max limits
// the starting and running attempts, services not counted. Adjust::parallel_max replaces this limit.
//
// Overtaking: while a trial A waits for slots, a later trial B starts if its slots are free, even if A needs
// some of these slots. After k_overtakes_max such starts, no later trial may take slots that A needs until A
// has started. Exception: if services or other runs hold slots that A needs, later trials do not wait for A,
// because such slots may never become free. The driver also sends the planner observations of other runs'
// attempts, so the planner counts the slots that other runs hold.
//
// GPUs: the planner assigns GPUs to each attempt by their ids. If another process has just claimed a GPU that
// the planner chose, that process keeps the GPU, and the trial waits again.
//
// Outputs: when an attempt has ended, combu collects its outputs before the trial counts as over. If the
// collection fails, combu repeats it as long as the run has other work.
//
// Retries and stops: Trial::retries determines whether another attempt follows a failed attempt. The planner
// stops an attempt that exceeds its timeout, and an attempt whose trial was removed or replaced in the file.
// The next attempt starts only after the stopped attempt has ended.
//
// Cache: combu looks up a trial with `cache` as soon as its inputs are known, even if other dependencies are
// unmet. In case of a hit the trial is `skipped`, which counts as a success for its dependents. No service
// starts while lookups are in flight, because all trials that need the service may be skipped. A trial on
// which others depend only with the condition `started` or `healthy` is not looked up.
//
// Limits: after Experiment::failures_max failed trials, no further trial starts; running trials continue.
// When the deadline passes, combu stops every attempt.
class Planner {
 public:
  static constexpr std::size_t k_overtakes_max = 32;
  // Maximum number of retries after lost hosts. Such retries do not count against Retries::max.
  static constexpr int k_losses_max = 10;

  Planner(RunId run, const Experiment& experiment, const Plan& plan, PlannerOptions options);
  ~Planner();
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  // Handles one event at time `now`, which must never decrease. Takes time linear in the number of trials
  // that change. Only the event Listed takes time linear in the listing and in all trials. An observation
  // that is repeated, or older than the attempt's known state, has no effect: the state of an attempt changes
  // only forward.
  [[nodiscard]] Step step(const Event& event, Instant now);

  [[nodiscard]] bool done() const;
  // True if the planner may still start an attempt, judged by the present states of the trials.
  [[nodiscard]] bool may_start_more() const;
  [[nodiscard]] TrialState state(TrialIndex trial) const;
  // Returns the trial with this name.
  [[nodiscard]] std::optional<TrialIndex> find(std::string_view name) const;
  [[nodiscard]] const std::array<std::size_t, k_trial_state_count>& counts() const;
  [[nodiscard]] std::size_t starts_in_flight() const;
  // True if the engine has not answered the trial's last start.
  [[nodiscard]] bool is_start_in_flight(TrialIndex trial) const;
  // True if the engine has accepted the trial's attempt, which waits there for a place.
  [[nodiscard]] bool is_pending(TrialIndex trial) const;
  // Returns why the trial did not start in the last step(). explain() decides with the same code as step().
  [[nodiscard]] Explanation explain(TrialIndex trial) const;
  // Returns the number of awaited trials (see is_waited_for()) that are not over.
  [[nodiscard]] std::size_t unfinished() const;
  // True if the run waits for the trial's end. False for services, and for trials on which others depend only
  // with the condition `started` or `healthy`.
  [[nodiscard]] bool is_waited_for(TrialIndex trial) const;
  // Returns why the outputs of `collecting` trials are not collected yet; empty if no try has failed. If the
  // run has no other work for a while, done() may be true although trials are still `collecting`. A later
  // process may collect the outputs of these trials.
  [[nodiscard]] const std::string& undelivered() const;
  // held(): slots of this run's attempts. held_by_others(): slots of other runs' attempts.
  [[nodiscard]] const Slots& held() const;
  [[nodiscard]] const Slots& held_by_others() const;
  [[nodiscard]] const Settings& settings() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Collects the outputs of a run for the last time: no process drives the run, and a command is about to
// remove the run's containers. Each `collecting` attempt gets one CollectCommand, which is not retried if it
// fails. `experiment` and `plan` must outlive the object.
class LastCollection {
 public:
  // `restored`: states of all trials.
  LastCollection(const RunId& run, const Experiment& experiment, const Plan& plan,
                 std::vector<RestoredTrial> restored, Instant now);
  [[nodiscard]] const std::vector<CollectCommand>& commands() const { return commands_; }
  // `answer` is the answer to one of commands(). Returns the facts that the record lacks after this answer.
  // Retries are not started: the next process that drives the run starts them.
  [[nodiscard]] std::vector<Fact> facts_of(const Collected& answer, Instant now);

 private:
  Planner planner_;
  std::vector<CollectCommand> commands_;
};

}  // namespace combu
