#pragma once
// Drives a run. One thread owns the planner, worker threads carry out the planner's commands, and one thread
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
  Seconds age{0};  // since the attempt began to run
};

// The state of a run at one moment, for display.
struct Snapshot {
  static constexpr std::size_t k_running_max = 5;

  std::size_t trials = 0;
  TrialCounts counts{};
  std::vector<TrialIndex> starting;  // trials that are being started; only the first few
  // Running trials that the run waits for, the oldest first. Empty if there are more than k_running_max.
  std::vector<RunningTrial> running = {};
  std::size_t started = 0;      // trials that have been started successfully so far
  Seconds elapsed{0};           // since the run began, even if an earlier process began it
  std::optional<Seconds> left;  // estimated remaining time (see src/run/time_left.hpp); nullopt if unknown
  bool interrupted = false;
  std::string interrupter;     // the other command that interrupted the run ("combu kill"); empty otherwise
  bool may_start_more = true;  // Planner::may_start_more()
  Settings settings;
  Slots held;                     // slots of this run's attempts
  Slots held_by_others;           // slots of other runs' attempts, as far as these are known
  std::optional<Slots> capacity;  // limit for all of these slots; nullopt if there is no limit
  [[nodiscard]] std::size_t count(TrialState state) const { return counts[static_cast<std::size_t>(state)]; }
};

// The cache lookup of a run: for trials with `cache`, looks up whether an equal trial has succeeded before.
class CacheLookup {
 public:
  virtual ~CacheLookup() = default;
  // Returns one result for each trial, in any order. Called from one thread that drive() creates for this
  // purpose. Throws only Error(cancelled): other errors count as cache misses.
  [[nodiscard]] virtual std::vector<CacheResult> look_up(const std::vector<TrialIndex>& trials,
                                                         const std::stop_token& stop) = 0;
  // The trial has succeeded, and its outputs and logs are stored. Must return at once. Called from the thread
  // that calls drive().
  virtual void done(TrialIndex /*trial*/) {}
};

// Stores the progress of a run, so that another process can continue the run. Called from the thread that
// calls drive().
class Journal {
 public:
  virtual ~Journal() = default;
  virtual void fact(const Fact& fact) = 0;  // called for every fact, in order
  // Called with the result of Engine::start(). Facts of this attempt may have been reported earlier.
  virtual void started(TrialIndex /*trial*/, const Observation& /*seen*/) {}
  // Called when outputs of an ended attempt are collected, before the fact that reports the end of the
  // collection.
  virtual void outputs_collected(TrialIndex /*trial*/, int /*attempt*/, const CollectionResult& /*taken*/) {}
  // Called before the fact that the trial is skipped or started.
  virtual void cache_result(const CacheResult& /*result*/) {}
  // Makes everything durable that was reported since the last call. drive() executes the resulting commands
  // only after commit() has returned. Also called before each snapshot.
  virtual void commit() = 0;
};

// Shows a run to a person. Called from the thread that calls drive().
class ProgressListener {
 public:
  virtual ~ProgressListener() = default;
  virtual void fact(const Fact& /*fact*/) {}  // called for every fact, in order
  // Shows a line about something that no fact contains.
  virtual void remark(const std::string& /*line*/) {}
  // An attempt failed or was stopped. Called after the fact, as soon as the last lines of the attempt's log
  // have been read. `tail`: these lines. They are read only for the first failures; empty otherwise.
  virtual void failure(const Fact& /*fact*/, const std::vector<std::string>& /*tail*/) {}
  // Called at most ten times a second while something changes, once a second otherwise, and at the end.
  virtual void snapshot(const Snapshot& /*snapshot*/) {}
};

// Changes the settings of a run while it is driven. All methods may be called from any thread and do not
// block.
class Steering {
 public:
  // Receives the settings after the change. Called from the thread that calls post() or drive().
  using Answer = std::function<void(const Settings&)>;
  struct Order {
    Adjust adjust;
    Answer answer;
    bool leave = false;  // drive() returns as soon as no start is in flight; the run is driven again later
  };

  // `settings`: the settings with which the run begins.
  explicit Steering(const Settings& settings) : settings_(settings) {}

  // Requests a change. Returns false if the run has ended. Changes that are requested before drive() begins
  // take effect when drive() begins.
  [[nodiscard]] bool post(const Adjust& adjust, Answer answer);
  // Makes drive() return with Outcome::left. Returns false if drive() is not running.
  [[nodiscard]] bool leave();

  // For drive() only. connect() passes all orders to `take` from here on, beginning with the changes that
  // were requested earlier. disconnect() ends this. `settings`: the settings with which the run will be
  // driven again; nullopt if the run has ended.
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
  // Failed, blocked and stopped trials, in the order of their facts; see is_unsuccessful().
  std::vector<Fact> unsuccessful;
  std::vector<TrialIndex> running;  // trials that were still running when drive() returned
  bool interrupted = false;         // `stop` was set before the run ended
  bool left = false;                // Steering::leave() was called before the run ended
  std::string undelivered;          // Planner::undelivered()
};

// The engine, listeners and stores that drive() uses. The referenced objects must outlive the call.
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
  CacheLookup* cache_lookup = nullptr;  // used if PlannerOptions::looks_up_cache
};

// Starts the trials of `run` in the order of `plan`. Returns when options.until is reached, or after `stop`
// was set and all starts in flight are answered. A trial that cannot be started blocks only its dependents.
// Throws Error(unavailable) if the engine is unavailable for longer than the retries of context.engine last;
// trials that were started keep running.
//
// Calls the engine from these threads:
// - options.starts_in_flight_max threads that start attempts, or as many as `steering` sets meanwhile;
// - up to 32 threads that stop attempts;
// - two threads that read logs;
// - four threads that collect outputs, if any trial has outputs;
// - two more threads that collect outputs of running attempts, if Collect::every is set;
// - two threads that poll the usage and logs of running attempts;
// - one thread that watches.
[[nodiscard]] Outcome drive(const Run& run, const Plan& plan, const PlannerOptions& options,
                            const DriveContext& context);

struct OutputsResult {
  Collected collected;
  std::optional<CollectionResult> taken;  // nullopt if no outputs were collected
};
// Collects the outputs that `command` names. Blocks. Errors are returned in Collected::fault.
[[nodiscard]] OutputsResult collect_trial_outputs(Engine& engine, const Run& run,
                                                  const CollectCommand& command, OutputStore& output_store,
                                                  const std::stop_token& stop);
// Collects the outputs that a running attempt has written so far. Stores them separately from the outputs
// that ended attempts left. The next call replaces them; collecting the outputs at the attempt's end removes
// them. Blocks. Returns an empty string on success, otherwise the reason of the failure.
[[nodiscard]] std::string collect_partial_outputs(Engine& engine, const Run& run, TrialIndex trial,
                                                  int attempt, OutputStore& output_store,
                                                  const std::stop_token& stop);
// Returns messages for a person: about outputs that cannot be collected (devices, sockets, pipes), and about
// files of an earlier attempt that could not be removed.
[[nodiscard]] std::vector<std::string> notes_of(const std::string& trial, const CollectionResult& taken);

// Blocks until every attempt that `selector` selects at the time of the call has ended or is gone. Waits for
// services only if the selector names trials.
// Calls `tell` when an attempt has ended; first for the attempts that have already ended. An attempt that is
// created but not started by then is reported at the end, with Phase::created. Returns the last observation
// of each attempt.
// Follows the engine's changes, and lists again after each reconnect. Throws Error(cancelled) if `stop` is
// set before the attempts have ended.
[[nodiscard]] std::vector<Observation> await_end(Engine& engine, const Selector& selector,
                                                 const std::function<void(const Observation&)>& tell,
                                                 std::stop_token stop);

}  // namespace combu
