#pragma once
// The planner: the only place where a trial changes state. It reads no clock, file or socket; events go in,
// commands and facts come out, so that it is tested as text and by simulation.

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
  waiting,   // for what it depends on
  ready,     // for slots, or a place among the starts in flight
  starting,  // handed to the engine
  running,
  retrying,    // its attempt has failed, and the next one waits for its time
  collecting,  // its attempt has ended, and its outputs are being taken home
  succeeded,   // ended with 0
  skipped,     // not started, since an equal trial has succeeded before
  failed,      // ended with another code, or could not be started
  blocked,     // something that it depends on will never be so
  stopped,  // ended by a person or by the run's deadline (Cause::stopped); a service whose work was done, or
            // a trial that was removed from the file (Cause::none)
};
inline constexpr std::size_t k_trial_state_count = 11;
using TrialCounts = std::array<std::size_t, k_trial_state_count>;  // by TrialState
[[nodiscard]] std::string_view to_string(TrialState state);
// "3 waiting, 12 succeeded"
[[nodiscard]] std::string counts_text(const TrialCounts& counts);
[[nodiscard]] constexpr bool is_over(TrialState state) {
  return state >= TrialState::succeeded;
}
// Whether what it was to leave is there.
[[nodiscard]] constexpr bool has_succeeded(TrialState state) {
  return state == TrialState::succeeded || state == TrialState::skipped;
}
// True of a trial that a person or the run's deadline ended before its work was done.
[[nodiscard]] constexpr bool was_stopped(TrialState state, Cause cause) {
  return state == TrialState::stopped && cause == Cause::stopped;
}
// True of a trial that is over and did not do its work.
[[nodiscard]] constexpr bool is_unsuccessful(TrialState state, Cause cause) {
  return state == TrialState::failed || state == TrialState::blocked || was_stopped(state, cause);
}
// Whether there is an attempt of it that holds slots.
[[nodiscard]] constexpr bool is_alive(TrialState state) {
  return state == TrialState::starting || state == TrialState::running;
}
// True if the engine may have an attempt of a trial that the record has in this state. The start of a waiting
// one may not be on record.
[[nodiscard]] constexpr bool may_have_attempt(TrialState on_record) {
  return is_alive(on_record) || on_record == TrialState::waiting;
}

// ---- Events

struct Begin {};  // before it come only Adjust and AttemptsFound
// Of a run that an earlier process has begun: containers that the engine has. A running or ended attempt of a
// trial that waits on record was started, though the record lacks the fact.
struct AttemptsFound {
  std::vector<Observation> observations;
};
struct StartAnswered {
  TrialIndex trial;
  StartResult result;
};
// After an Interrupt, ErrorKind::cancelled says that nothing was begun: it is as if it had not been asked
// for.
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
// All that is kept of an ended attempt has been taken, or cannot be had.
struct Collected {
  TrialIndex trial;
  std::string fault = {};   // why its outputs are not home; empty: they are, or there are none
  bool by_attempt = false;  // it has not left what it was to leave; else they may be had another time
};
// What a trial is known by from here on, so that an equal one need not be done again.
struct CacheResult {
  TrialIndex trial = 0;
  std::string hash;                 // the same for equal trials; empty: it cannot be told
  std::string parts;                // what went into it: a JSON object
  std::vector<std::string> inputs;  // content_digest() of each of Trial::inputs
  std::string run;   // of the equal one, where there is one; what that has left is this one's, too
  std::string name;  // and its name there
};

// The answer to CacheLookupCommand.
struct CacheLookupAnswered {
  TrialIndex trial;
  std::string done = {};  // where an equal one has succeeded, for a person; empty: it is to be started
};
// Whether the engine was away when an attempt ended: then it is lost with it.
enum class Break {
  unknown,  // it may be about to be
  was,
  was_not,
};
struct Observed {
  Observation observation;
  Break engine = Break::unknown;
};
// The answer to InspectCommand: the same again, with its times where the engine has them.
struct Inspected {
  Observation observation;
};
// A listing is about to be asked for. What is started from here on need not be in it.
struct ListingBegins {
  bool after_break = false;  // the engine was away
};
struct Listed {
  std::vector<Observation> observations;  // all of the run's
  bool after_break = false;               // the engine was away before: what is listed may have ended with it
};
// No new starts from here on. What fails waits for a later process to try it again, unless nobody will.
struct Interrupt {
  bool for_good = false;
};
struct Tick {};  // Step::wake has come
// What is to be different from here on than the experiment and the options say; nullopt: as it is. What is
// alive beyond a lower limit lives on.
struct Adjust {
  std::optional<std::size_t> parallel_max;  // 0: no limit
  std::optional<std::size_t> starts_in_flight_max;
  std::optional<bool> paused;  // nothing starts
  // The command that is about to interrupt the run's process, for its messages: "combu kill"; the planner
  // does not use it.
  std::string interrupter = {};
  // Trials that another command is about to stop, and the user of that command, for the reason of their end.
  std::vector<std::string> stopping = {};
  std::string stopper = {};
};
// No listing comes: what lives on record lives, and others hold these slots. For who asks explain() of a run
// that another process drives, and gives no command.
struct Assumed {
  Slots held_by_others;
};
// A person has removed the run's containers, but for those of `kept`. Nothing starts any more.
struct Killed {
  std::vector<TrialIndex> kept;
};
// A person has removed these trials from the file. None of them is alive.
struct Removed {
  std::vector<TrialIndex> trials;
};
// These trials wait again, each for a new attempt; their earlier attempts no longer count. None of them is
// alive.
struct Reopened {
  std::vector<TrialIndex> trials;
};
using Event = std::variant<Begin, AttemptsFound, StartAnswered, StartFailed, StopAnswered, StopFailed,
                           Collected, CacheLookupAnswered, Observed, Inspected, ListingBegins, Listed,
                           Interrupt, Tick, Adjust, Assumed, Killed, Removed, Reopened>;

// ---- What comes out

struct StartCommand {
  TrialIndex trial;
  int attempt = 1;
  Slots slots;  // with named GPUs, and more memory than the file says after an attempt that was out of it
};
struct StopCommand {
  TrialIndex trial;
  int attempt = 1;
};
// A start that is under way is given up: nobody waits for its answer, which is StartFailed.
struct GiveUpCommand {
  TrialIndex trial;
  int attempt = 1;
};
// Take what is kept of an ended attempt: the next one waits for it, since it takes the container's place.
struct CollectCommand {
  TrialIndex trial;
  int attempt = 1;
  bool tail = false;     // the end of its log, for a person
  bool outputs = false;  // its outputs
  bool failed = false;   // it need not have left them all
};
// Has an equal trial succeeded before? Then its outputs are to be this one's.
struct CacheLookupCommand {
  TrialIndex trial;
};
// Its end is told late, or may be another than it seems: when it began and ended is to be asked for.
struct InspectCommand {
  TrialIndex trial;
  Observation observation;
  int attempt = 1;
};
using Command = std::variant<StartCommand, StopCommand, GiveUpCommand, CollectCommand, CacheLookupCommand,
                             InspectCommand>;

// Who stopped an attempt. Its reason goes on after the word: "by alice with `combu stop`", "from outside".
enum class Stopper : std::uint8_t {
  none,
  person,
  outside,  // somebody, not by combu
  run,      // its deadline, for instance
};
inline constexpr std::size_t k_stopper_count = 4;
[[nodiscard]] std::string_view to_string(Stopper stopper);

// What follows the end of an attempt.
enum class Next : std::uint8_t {
  none,      // nothing that is said
  attempt,   // another attempt, after the pause
  due,       // another attempt, which waits to be started
  verdict,   // another attempt if the engine is being restarted
  collect,   // its outputs are collected again; `next_why`: why they could not be
  spent,     // nothing: there have been as many attempts as may
  given_up,  // nothing, though there could be another attempt; `next_why` says why
  lost,      // nothing: its container was removed before its outputs were collected
};
inline constexpr std::size_t k_next_count = 8;
[[nodiscard]] std::string_view to_string(Next next);

// An end, beside its reason.
struct EndDetails {
  Stopper stopper = Stopper::none;
  std::string outputs_fault = {};  // of a failed attempt: why it has not left its outputs either
  Next next = Next::none;
  Seconds pause{0};
  std::string next_why = {};
  bool operator==(const EndDetails&) const = default;
};
// The text of an end for a person: "exit code 1; attempt 2 in 5.0 s". `attempt`: the one that ended.
[[nodiscard]] std::string reason_text(const std::string& reason, const EndDetails& details, int attempt);
// The same beside the word for the state: without "stopped" if the trial is.
[[nodiscard]] std::string reason_text_beside(TrialState state, const std::string& reason,
                                             const EndDetails& details, int attempt);
// Of a fact, for instance.
template <class End>
[[nodiscard]] std::string reason_text(const End& end) {
  return reason_text(end.reason, end.details, end.attempt);
}
template <class End>
[[nodiscard]] std::string reason_text_beside_state(const End& end) {
  return reason_text_beside(end.state, end.reason, end.details, end.attempt);
}

// One change of a trial's state, or that a running one has become healthy; or, of one that is starting or
// running and has a cause, that it is stopped for this cause. That it is ready is told of one whose start is
// taken back, and of a further attempt that is not started at once.
struct Fact {
  TrialIndex trial = 0;
  TrialState state = TrialState::waiting;
  int attempt = 1;                 // that it is about
  Cause cause = Cause::none;       // of failed, stopped and retrying, and of collecting after a failure
  bool healthy = false;            // state is running, and its health check passes now
  bool ran = false;                // of one that is over: it was started
  bool is_reset = false;           // of retrying and waiting: the trial's attempts until here no longer count
  std::optional<int> exit_code;    // of an attempt that ran and ended
  std::string reason;              // of failed, stopped, retrying, blocked and skipped, for a person
  EndDetails details = {};         // of these and of collecting
  std::optional<TrialIndex> root;  // of blocked: the trial at the head of the chain of causes
  Instant at{};                    // step()'s `now`, or when the engine says that it was
  std::string id;                  // of running: the engine's id, where it is known
  Slots slots;                     // of starting and ready, like the next one
  Instant ready_at{};  // since when nothing that it depends on was missing; the epoch: from the beginning
  std::optional<Usage> usage;  // of one that has ended; drive() adds it, the planner does not know it
};
// Whether it tells no more than that the attempt is being stopped, and for which cause.
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
  std::optional<Instant> wake;  // when Tick is wanted, if nothing comes before; nullopt: never
};

enum class Until {
  started,  // every trial has been started, or never will be, and nothing is left to do for those that run;
            // see is_monitored()
  ended,  // every trial but the services is over, and these have been stopped. What is not marked as one, but
          // only has to run or be healthy for others, is left to run
};

// What becomes of a trial whose attempt is stopped since its file has been edited.
enum class Departure : std::uint8_t {
  no,
  removed,   // it is over
  replaced,  // it waits again, as the file says now
};
inline constexpr std::size_t k_departure_count = 3;
[[nodiscard]] std::string_view to_string(Departure departure);
[[nodiscard]] std::string_view reason_of(Departure departure);  // of the attempt's end, for a person

// Where an earlier process has left a trial of the run. One that is ready waits for a further attempt, and
// the rest is of the last one that there was.
struct RestoredTrial {
  TrialState state = TrialState::waiting;
  int attempt = 1;
  Cause cause = Cause::none;  // this and what follows as in Fact
  std::optional<int> exit_code;
  std::string reason;
  EndDetails details = {};
  std::optional<TrialIndex> root;
  bool was_started = false;  // any of its attempts has run, or was healthy
  bool was_healthy = false;
  std::optional<Instant> ran_at;                  // when its last attempt began to run
  std::optional<Instant> over_at = std::nullopt;  // when the trial was over
  Cause stop_cause = Cause::none;                 // why it was being stopped
  std::vector<Cause> earlier;                     // why each of its earlier attempts failed
  Bytes memory{};                                 // of one that is ready: what its next attempt wants
  bool anew = false;                    // a person wants it done again, whatever has been done before
  Departure departure = Departure::no;  // of its last attempt, while that is starting or running
  Slots slots;                          // that this one holds, while it lives; empty: as the file says
};

struct PlannerOptions {
  std::size_t starts_in_flight_max = 8;
  Until until = Until::started;
  // After its start_deadline a start that is under way is given up: an engine that is only slow has answered.
  Seconds answer_after{15};
  std::optional<Slots> capacity;  // what all runs on the engine share; nullopt: not bounded
  std::vector<Gpu> gpus;          // what is known of those in it
  bool looks_up_cache = false;    // before a trial with `cache` is started, CacheLookupCommand is given
  // By trial; empty: the run begins. Else it goes on: nothing starts before a listing has told what became of
  // what ran, and what has ended meanwhile may have ended with its host.
  std::vector<RestoredTrial> restored;
  std::optional<Instant> began_at;         // of one that goes on: its deadline counts from here
  std::optional<Instant> engine_began_at;  // Facts::began_at
};

// Why a trial does not start: the first obstacle in this order.
struct Explanation {
  enum class Kind : std::uint8_t {
    none,          // it is over, or has an attempt that is
    retry,         // the pause before its next attempt
    dependencies,  // `unmet`
    canary,        // `first`, the canary of its shape, must succeed
    lookup,        // whether an equal trial has succeeded is looked up
    interrupted,   // nothing starts
    listing,       // the engine has to say first what runs
    paused,
    place,      // as many attempts are alive as may
    slots,      // those that it wants are not free
    overtaken,  // `first`, which waits for slots, has been overtaken often enough
    room,       // a service that would leave too little for the trials that services serve
    turn,       // `first` starts before it; nullopt: others do
    starts,     // as many starts are in flight as may
    nothing,    // it starts next, as soon as another start may be in flight
  };
  Kind kind = Kind::none;
  std::vector<Edge> unmet = {};
  std::optional<TrialIndex> first = std::nullopt;
  bool operator==(const Explanation&) const = default;
};

// What Adjust changes, as it is.
struct Settings {
  std::size_t parallel_max = 0;
  std::size_t starts_in_flight_max = PlannerOptions{}.starts_in_flight_max;
  bool paused = false;
  void take(const Adjust& adjust);
};

// The state of a trial of which only a container is known.
[[nodiscard]] TrialState state_of(const Observation& container);

// The end of an attempt that no process of its run has seen, as far as its container shows it; the container
// may be gone.
struct Ending {
  Cause cause = Cause::none;
  std::string reason;  // as in Fact, like `details`; empty when it has succeeded
  EndDetails details = {};
};
[[nodiscard]] Ending ending_of(const Observation& ended);
[[nodiscard]] TrialState state_of(const Ending& ending);

// True if the run fails by this trial: it is unsuccessful, and no service that was stopped.
[[nodiscard]] inline bool fails_run(const Trial& trial, TrialState state, Cause cause) {
  return is_unsuccessful(state, cause) && !(trial.service && state == TrialState::stopped);
}

// Whether somebody must stay while this trial runs: for its outputs, its retries, its timeout, the run's
// deadline.
[[nodiscard]] bool is_monitored(const Experiment& experiment, const Trial& trial);

// The trials that could never start: they want more slots than `capacity` holds, beside the services that run
// then: with Until::started all of them. `gpus`: what is known of those in it. What many want alike is one
// error.
[[nodiscard]] std::vector<Error> check_slots(const Experiment& experiment, const Slots& capacity,
                                             std::span<const Gpu> gpus, Until until = Until::ended);

// The ends of a run's trials when a person has removed its containers, but for those of `kept`. `trials`:
// their names, in the order of `past`.
[[nodiscard]] std::vector<Fact> facts_of_kill(const RunId& run, std::span<const std::string> trials,
                                              std::vector<RestoredTrial> restored,
                                              std::span<const std::string> kept, Instant now);

// A person's changes of a run's trials, none of which is alive.
struct TrialEdits {
  std::vector<TrialIndex> removed = {};   // from the run's file
  std::vector<TrialIndex> reopened = {};  // wait again, each for a new attempt
};
[[nodiscard]] std::vector<Fact> facts_of_edits(const RunId& run, std::vector<RestoredTrial> restored,
                                               TrialEdits edits, Instant now);

// The state of a run that no process drives, as its engine reports it.
struct Unattended {
  std::vector<Observation> listed;  // all of the run
  // The attempts that ended, or that run although the record does not say so, with the engine's times.
  std::vector<Observation> changed;
  std::vector<std::string> stopped = {};                  // trials that `stopper` has just stopped
  std::string stopper = {};                               // a user's name
  bool is_final = false;                                  // no process will try failed trials again
  std::optional<Instant> engine_began_at = std::nullopt;  // Facts::began_at
};
// The facts that the record lacks: attempts that run or have ended, containers that are gone, and trials that
// are blocked by these ends. Their times are the engine's. Starts of further attempts are left to the next
// process that drives the run. The same for the same arguments.
[[nodiscard]] std::vector<Fact> reconcile(const RunId& run, const Experiment& experiment, const Plan& plan,
                                          std::vector<RestoredTrial> restored, const Unattended& seen,
                                          Instant now);

// The end of an attempt whose run is not on record, as far as the container shows it; nullopt if the attempt
// has not ended.
[[nodiscard]] std::optional<Fact> end_of_unrecorded(const Observation& seen);

// True if all trials are over when `facts` follow on `past`.
[[nodiscard]] bool are_all_over(std::span<const RestoredTrial> restored, std::span<const Fact> facts);

// Where a run stands that another process drives, or none.
struct RunSituation {
  const RunId& run;
  const Experiment& experiment;
  const Plan& plan;
  const std::vector<RestoredTrial>& restored;  // of all trials
  Settings settings = {};                      // in force
  std::optional<Slots> capacity = {};  // nullopt: not known; then a trial that wants slots waits for them
  Slots held_by_others = {};           // by attempts of other runs
  Instant now{};
};
// Returns why a trial of the run does not start, by the rules of Planner::explain(); `starts` in place of
// `turn` and `nothing`, if it applies. The process that drives the run may know more: cache lookups, and how
// often trials were overtaken, are not on record (trials count as overtaken often enough).
[[nodiscard]] Explanation explain(const RunSituation& situation, TrialIndex trial);

// Belongs to one thread. `experiment` and `plan` outlive it.
//
// Of the ready trials the one with the highest priority starts first, among equals the first by
// Experiment::order, as soon as its slots are free; Experiment::parallel_max, or what Adjust says in its
// place, bounds the attempts alive that are no services. One that waits for slots is overtaken by others that
// fit and would take of what it waits for, but only k_overtakes_max times: then none of these starts before
// it, unless what it waits for is held by services or other runs, which may hold it for ever. Observations of
// other runs' attempts (of a wider selector) are what these hold.
//
// Each attempt gets GPUs by name. One that another process has taken a moment before is left to it, and the
// trial waits again.
//
// The outputs of an attempt are taken home when it has ended, before it counts as over; that is tried again
// for as long as there is something else to do.
//
// A failed attempt is followed by the next as Trial::retries says; an attempt that takes too long is stopped,
// and so is one that leaves: the next one of its trial waits until it has ended.
// A trial with `cache` is asked for as soon as it is known what goes into it, whatever it depends on; where
// it has been done before it is skipped, which is as good as a success to all others. Until then no service
// is started, which may not be needed at all. What others only want to run beside them is not skipped. After
// Experiment::failures_max failed trials nothing more starts, and what runs goes on; at its deadline all is
// stopped.
class Planner {
 public:
  static constexpr std::size_t k_overtakes_max = 32;
  // So often a trial is tried again after its host was lost, which does not spend its retries.
  static constexpr int k_losses_max = 10;

  Planner(RunId run, const Experiment& experiment, const Plan& plan, PlannerOptions options);
  ~Planner();
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  // Time is linear in the trials that change, whatever the size of the experiment (Listed: in the listing and
  // the trials). Repeated, late and reordered sightings change nothing: a trial's state only goes forward.
  // `now` comes from a clock that is never set back.
  [[nodiscard]] Step step(const Event& event, Instant now);

  [[nodiscard]] bool done() const;
  // Whether a start is still to come, as far as can be told.
  [[nodiscard]] bool may_start_more() const;
  [[nodiscard]] TrialState state(TrialIndex trial) const;
  [[nodiscard]] const std::array<std::size_t, k_trial_state_count>& counts() const;
  [[nodiscard]] std::size_t starts_in_flight() const;
  // What step() found at its last call, by the same code.
  [[nodiscard]] Explanation explain(TrialIndex trial) const;
  // Trials that are waited for and not over.
  [[nodiscard]] std::size_t unfinished() const;
  // True if the run waits for this trial's end: neither a service, nor a trial that only has to run for
  // others.
  [[nodiscard]] bool is_waited_for(TrialIndex trial) const;
  // Why the outputs of what is collecting are not home yet, as far as there is a reason; empty else. It is
  // done() when there is nothing else to do for a while: a later process may have more luck.
  [[nodiscard]] const std::string& undelivered() const;
  // What this run's attempts hold, and what those of others do.
  [[nodiscard]] const Slots& held() const;
  [[nodiscard]] const Slots& held_by_others() const;
  [[nodiscard]] const Settings& settings() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Collects the outputs of a run that no process drives, for the last time: its containers are about to be
// removed. Each attempt that is `collecting` gets one command; a failure is final. `experiment` and `plan`
// outlive it.
class LastCollection {
 public:
  // `past`: of all trials.
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
