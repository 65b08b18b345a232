#pragma once
// Drives a run: one thread owns the planner, workers carry its commands out, one watches the engine.

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
  Seconds age{0};  // since its attempt began to run
};

// Where a run stands; made for people, several times a second at most.
struct Snapshot {
  static constexpr std::size_t k_running_max = 5;

  std::size_t trials = 0;
  TrialCounts counts{};
  std::vector<TrialIndex> starting;  // the first few of those that are being started
  // The running trials whose end is waited for, the oldest first; empty if they are more than k_running_max.
  std::vector<RunningTrial> running = {};
  std::size_t started = 0;      // starts that have succeeded so far
  Seconds elapsed{0};           // since the run's beginning, also where an earlier process began it
  std::optional<Seconds> left;  // an estimate, see src/run/time_left.hpp
  bool interrupted = false;
  std::string interrupter;  // the other command that interrupted it: "combu kill"; empty: a person, or nobody
  bool may_start_more = true;  // as Planner::may_start_more()
  Settings settings;
  Slots held;                     // by this run's attempts
  Slots held_by_others;           // by those of other runs, as far as they say
  std::optional<Slots> capacity;  // for all of them; nullopt: not bounded
  [[nodiscard]] std::size_t count(TrialState state) const { return counts[static_cast<std::size_t>(state)]; }
};

// What has been done before: trials with `cache` are looked for in it.
class CacheLookup {
 public:
  virtual ~CacheLookup() = default;
  // One for each, in whatever order. Called from one thread that is drive()'s own. Throws nothing but
  // Error(cancelled): what cannot be told is as if it had not been done.
  [[nodiscard]] virtual std::vector<CacheResult> look_up(const std::vector<TrialIndex>& trials,
                                                         const std::stop_token& stop) = 0;
  // It has succeeded, and what it has left and told is home. Returns at once. Called from drive()'s own
  // thread.
  virtual void done(TrialIndex /*trial*/) {}
};

// Keeps what a run does, so that another process can go on with it. Called from the thread of drive().
class Journal {
 public:
  virtual ~Journal() = default;
  virtual void fact(const Fact& fact) = 0;  // each one, in order
  // Engine::start has returned this of an attempt, whose facts may have come before.
  virtual void started(TrialIndex /*trial*/, const Observation& /*seen*/) {}
  // Outputs of an attempt that has ended, before the fact that all of them are collected.
  virtual void outputs_collected(TrialIndex /*trial*/, int /*attempt*/, const CollectionResult& /*taken*/) {}
  // Before the fact that the trial is skipped, or that it is started.
  virtual void cache_result(const CacheResult& /*result*/) {}
  // Makes all that came since the last call durable: the commands that follow from it are given when this
  // returns. Called before each snapshot, too.
  virtual void commit() = 0;
};

// Shows a run to a person. Called from the thread of drive().
class ProgressListener {
 public:
  virtual ~ProgressListener() = default;
  virtual void fact(const Fact& /*fact*/) {}  // each one, in order
  // A line that no fact contains.
  virtual void remark(const std::string& /*line*/) {}
  // An attempt failed or was stopped: after its fact, as soon as the last lines of its log have been read.
  // `tail`: these lines; empty if there are none, and for all but the first failures.
  virtual void failure(const Fact& /*fact*/, const std::vector<std::string>& /*tail*/) {}
  // At most ten times a second while something changes, and at the end.
  virtual void snapshot(const Snapshot& /*snapshot*/) {}
};

// Changes a run while it is driven. Methods may be called from any thread, and do not block.
class Steering {
 public:
  // Gets the settings that are in force then; called from the thread of post() or of drive().
  using Answer = std::function<void(const Settings&)>;
  struct Order {
    Adjust adjust;
    Answer answer;
    bool leave = false;  // drive() is to return when no start is in flight; the run is driven again later
  };

  // `settings`: those that the run begins with.
  explicit Steering(const Settings& settings) : settings_(settings) {}

  // False when the run is driven no more. What comes before it is driven holds from its beginning.
  [[nodiscard]] bool post(const Adjust& adjust, Answer answer);
  // Has drive() return, with Outcome::left. False when it is not under way.
  [[nodiscard]] bool leave();

  // For drive(): where orders go from here on. What came before is the first of them. `settings`: those with
  // which it is driven again; nullopt: it is not.
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
  std::vector<Fact> unsuccessful;   // failed, blocked and stopped trials, as they came; see is_unsuccessful()
  std::vector<TrialIndex> running;  // still running when drive() returned
  bool interrupted = false;         // `stop` was set before the end
  bool left = false;                // Steering::leave() came before the end
  std::string undelivered;          // Planner::undelivered()
};

// The engine, listeners and stores that drive() uses. The references outlive the call.
struct DriveContext {
  Engine& engine;
  Clock& clock;
  Journal& journal;
  ProgressListener& progress;
  std::stop_token stop = {};
  Steering* steering = nullptr;
  OutputStore* output_store = nullptr;  // where outputs go; needed if trials have any
  Telemetry* telemetry = nullptr;  // where logs and metrics go, while attempts run and when they have ended
  CacheLookup* cache_lookup = nullptr;  // asked if PlannerOptions::looks_up_cache
};

// Starts the trials of `run` in the order of `plan`, and returns when options.until is reached, or after
// `stop` was set and the starts in flight have been answered. A trial that cannot be started blocks only what
// depends on it. Throws Error(unavailable) when the engine is away for longer than its own retries bear: what
// was started stays started. The engine's verbs are called from options.starts_in_flight_max threads (or as
// many as `steering` says meanwhile), up to 32 more that stop, two that read logs, four that collect outputs
// if trials have any, two more if this is done while they run (Collect::every), two that poll usage and logs
// of running attempts, and one that watches.
[[nodiscard]] Outcome drive(const Run& run, const Plan& plan, const PlannerOptions& options,
                            const DriveContext& context);

struct OutputsResult {
  Collected collected;
  std::optional<CollectionResult> taken;  // nullopt: nothing has come home
};
// Carries a command for outputs out: what became of it.
[[nodiscard]] OutputsResult collect_trial_outputs(Engine& engine, const Run& run,
                                                  const CollectCommand& command, OutputStore& output_store,
                                                  const std::stop_token& stop);
// Takes home what an attempt that runs has left so far, beside what has come home at the end of another; the
// next one takes its place, and the outputs at the end do away with it. Why it could not be had; empty: it
// is home.
[[nodiscard]] std::string collect_partial_outputs(Engine& engine, const Run& run, TrialIndex trial,
                                                  int attempt, OutputStore& output_store,
                                                  const std::stop_token& stop);
// Lines for a person: outputs that cannot be collected (devices, sockets, pipes), and files of an earlier
// attempt that could not be removed.
[[nodiscard]] std::vector<std::string> notes_of(const std::string& trial, const CollectionResult& taken);

// Blocks until every attempt that `selector` selects at the time of the call has ended or is gone (services
// only when it names trials); `tell` hears of each (those already over first). One that has been created and
// not started by then is told as such at the end. Returns their last sightings. Follows the engine's changes;
// lists again after each reconnect.
[[nodiscard]] std::vector<Observation> await_end(Engine& engine, const Selector& selector,
                                                 const std::function<void(const Observation&)>& tell,
                                                 std::stop_token stop);

}  // namespace combu
