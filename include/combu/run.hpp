#pragma once
// Drives a run. One thread owns the planner, other threads carry out the planner's commands, and one thread
// watches the engine.

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "combu/base.hpp"
#include "combu/engine.hpp"
#include "combu/outputs.hpp"
#include "combu/plan.hpp"
#include "combu/schedule.hpp"
#include "combu/telemetry.hpp"

namespace combu {

struct RunningTrial {
  TrialIndex trial = 0;
  Seconds age{0};  // time since the attempt began to run
};

// Trials that are starting, and wait for the same reason.
struct PendingTrials {
  std::string reason;  // Placement::pending_reason
  TrialIndex first = 0;
  std::size_t count = 0;
};

// The state of a run at one moment, for display.
struct Snapshot {
  static constexpr std::size_t k_running_max = 5;
  static constexpr std::size_t k_pending_max = 3;

  std::size_t trials = 0;
  TrialCounts counts{};
  std::vector<TrialIndex> starting;  // the first few of the trials that are being started
  std::size_t starts_in_flight = 0;  // starts that the engine has not answered yet
  // Running trials for which the run waits (see Planner::is_waited_for()), the oldest first. Empty if more
  // than k_running_max such trials run.
  std::vector<RunningTrial> running = {};
  std::vector<PendingTrials> pending = {};  // at most k_pending_max reasons, the most frequent first
  std::size_t started = 0;                  // number of trials that have had a running attempt
  Seconds elapsed{0};                       // time since the run began; an earlier process may have begun it
  std::optional<Seconds> left;  // estimated remaining time (see src/run/time_left.hpp); nullopt if unknown
  bool interrupted = false;
  std::string interrupter;  // the command that interrupted the run, such as "combu kill"; empty if none did
  bool may_start_more = true;  // Planner::may_start_more()
  Settings settings;
  Slots held;                     // slots that this run's attempts hold
  Slots held_by_others;           // slots that other runs' attempts hold, as far as combu knows
  std::optional<Slots> capacity;  // limit for the sum of all held slots; nullopt: no limit
  [[nodiscard]] std::size_t count(TrialState state) const { return counts[static_cast<std::size_t>(state)]; }
};

// The cache lookup of a run: for trials with `cache`, looks up whether an equal trial has succeeded before.
class CacheLookup {
 public:
  virtual ~CacheLookup() = default;
  // Returns one result for each trial, in any order. drive() creates one thread for lookups, which alone
  // calls look_up(). Throws only Error(cancelled): other errors count as cache misses.
  [[nodiscard]] virtual std::vector<CacheResult> look_up(const std::vector<TrialIndex>& trials,
                                                         const std::stop_token& stop) = 0;
  // Called when the trial has succeeded, and its outputs and logs are stored. done() must return at once. The
  // thread that calls drive() calls done().
  virtual void done(TrialIndex /*trial*/) {}
};

// Stores the progress of a run, so that another process can continue the run. The thread that calls drive()
// calls the functions of Journal.
class Journal {
 public:
  virtual ~Journal() = default;
  virtual void fact(const Fact& fact) = 0;  // called for every fact, in order
  // Called when Engine::start() has returned a running attempt, and when an engine that has only accepted the
  // attempt of a trial with `cache` reports the digest of its image. fact() may have been called for this
  // attempt earlier.
  virtual void started(TrialIndex /*trial*/, const Observation& /*seen*/) {}
  // Called after outputs of an ended attempt have been collected, and before fact() reports the end of the
  // collection.
  virtual void outputs_collected(TrialIndex /*trial*/, int /*attempt*/,
                                 const CollectionResult& /*collection*/) {}
  // Called before fact() reports that the trial is skipped or started.
  virtual void cache_result(const CacheResult& /*result*/) {}
  // Makes everything durable that the journal received since the last commit(). Commands that follow from the
  // facts are executed only after commit() has returned. drive() also calls commit() before each call of
  // ProgressListener::snapshot().
  virtual void commit() = 0;
};

// Shows a run to a person. The thread that calls drive() calls the functions of ProgressListener.
class ProgressListener {
 public:
  virtual ~ProgressListener() = default;
  virtual void fact(const Fact& /*fact*/) {}  // called for every fact, in order
  // Shows a line of text about an event that no fact reports.
  virtual void remark(const std::string& /*line*/) {}
  // An attempt failed or was stopped. Called after fact(), as soon as the last lines of the attempt's log
  // have been read. `tail`: the last lines of the log; combu reads them only for the first failures of a run,
  // otherwise `tail` is empty.
  virtual void failure(const Fact& /*fact*/, const std::vector<std::string>& /*tail*/) {}
  // Called at most ten times a second while trials change, otherwise once a second, and at the end of the
  // run.
  virtual void snapshot(const Snapshot& /*snapshot*/) {}
};

// Changes the settings of a run while drive() drives the run. All methods may be called from any thread and
// do not block.
class Steering {
 public:
  // Receives the settings after the change. The thread that calls post() or drive() calls the Answer.
  using Answer = std::function<void(const Settings&)>;
  struct Order {
    Adjust adjust;
    Answer answer;
    // If true, drive() returns as soon as no start is in flight; the caller calls drive() again later.
    bool leave = false;
  };

  // `settings`: the settings of the run at its beginning.
  explicit Steering(const Settings& settings) : settings_(settings) {}

  // Requests a change. Returns false if the run has ended. If drive() has not begun yet, the change takes
  // effect when drive() begins.
  [[nodiscard]] bool post(const Adjust& adjust, Answer answer);
  // Makes drive() return with Outcome::left. Returns false if drive() is not running.
  [[nodiscard]] bool leave();

  // For drive() only. After connect(), all orders are passed to `take`, beginning with changes that were
  // requested earlier. After disconnect(), orders are no longer passed on. `settings`: the settings for the
  // next call of drive(); nullopt if the run has ended.
  void connect(std::function<void(Order)> take);
  void disconnect(std::optional<Settings> settings);

 private:
  std::mutex mutex_;
  std::function<void(Order)> take_;
  bool is_over_ = false;
  Settings settings_;
  Adjust early_;
};

struct Outcome {
  Snapshot last;
  // Facts of the failed, blocked and stopped trials (see is_unsuccessful()), in the order in which they were
  // reported.
  std::vector<Fact> unsuccessful;
  std::vector<TrialIndex> running;  // trials that were still running when drive() returned
  std::size_t pending = 0;          // trials that the engine had accepted, and that did not run yet
  bool interrupted = false;         // true if DriveContext::stop requested a stop before the run ended
  bool left = false;                // true if Steering::leave() was called before the run ended
  std::string undelivered;          // Planner::undelivered()
};

// The engine, listeners and stores that drive() uses. The referenced objects must outlive the call of
// drive().
struct DriveContext {
  Engine& engine;
  Clock& clock;
  Journal& journal;
  ProgressListener& progress;
  std::stop_token stop = {};
  Steering* steering = nullptr;
  OutputStore* output_store = nullptr;  // where outputs are stored; required if trials have outputs
  // Where logs and metrics are stored, while attempts run and after they have ended.
  Telemetry* telemetry = nullptr;
  CacheLookup* cache_lookup = nullptr;  // used if PlannerOptions::looks_up_cache is set
  ReadingPace reading = {};             // Facts::reading
};

// Starts the trials of `run` in the order of `plan`. Returns when the condition options.until is met. If
// context.stop requests a stop, returns as soon as the engine has answered all starts in flight. A trial that
// cannot be started blocks only the trials that depend on it. Throws Error(unavailable) if the engine is
// still unavailable after all retries by `context.engine`; trials that were started keep running.
//
// Calls the engine from these threads:
// - options.starts_in_flight_max threads that start attempts; if `steering` raises this limit, more threads
//   are added;
// - up to 32 threads that stop attempts;
// - context.reading.logs_max threads that read logs;
// - four threads that collect outputs, if any trial has outputs;
// - two more threads that collect outputs of running attempts, if Collect::every is set;
// - two threads that poll the usage and logs of running attempts;
// - one thread that watches the engine.
[[nodiscard]] Outcome drive(const Run& run, const Plan& plan, const PlannerOptions& options,
                            const DriveContext& context);

struct OutputsResult {
  Collected collected;
  std::optional<CollectionResult> collection;  // nullopt if no outputs were collected
};
// Collects the outputs of the attempt that `command` names. Blocks. Errors are returned in Collected::fault.
[[nodiscard]] OutputsResult collect_trial_outputs(Engine& engine, const Run& run,
                                                  const CollectCommand& command, OutputStore& output_store,
                                                  const std::stop_token& stop);
// Collects the outputs that a running attempt has written so far. Stores these partial outputs separately
// from the outputs of ended attempts. The next call replaces partial outputs of the trial;
// collect_trial_outputs() removes them. Blocks. Returns an empty string on success, otherwise the reason of
// the failure.
[[nodiscard]] std::string collect_partial_outputs(Engine& engine, const Run& run, TrialIndex trial,
                                                  int attempt, OutputStore& output_store,
                                                  const std::stop_token& stop);
// Returns messages for a person: about outputs that combu cannot collect (devices, sockets, pipes), and about
// files of an earlier attempt that combu could not remove.
[[nodiscard]] std::vector<std::string> notes_of(const std::string& trial, const CollectionResult& collection);

// Blocks until every attempt that `selector` selects at the time of the call has ended or is removed. Waits
// for services only if the selector names trials. Calls `on_end` for each attempt that has ended; first for
// the attempts that had ended before the call. Calls `on_end` last for the attempts that were created but
// never started; they have Phase::created. Returns the last observation of each attempt. Watches the engine's
// changes, and lists the attempts again each time the watch reconnects. Throws Error(cancelled) if `stop`
// requests a stop before the attempts have ended.
[[nodiscard]] std::vector<Observation> await_end(Engine& engine, const Selector& selector,
                                                 const std::function<void(const Observation&)>& on_end,
                                                 std::stop_token stop);

}  // namespace combu
