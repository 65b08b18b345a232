#include "app/execution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "app/capacity.hpp"
#include "app/earlier_runs.hpp"
#include "app/outputs.hpp"
#include "app/record_kill.hpp"
#include "app/recorder.hpp"
#include "app/run_telemetry.hpp"
#include "app/secrets.hpp"
#include "combu/analysis.hpp"
#include "combu/inputs.hpp"
#include "combu/reuse.hpp"
#include "combu/run.hpp"
#include "combu/text.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

// Forwards the run's facts and snapshots to the progress display. When no trial is left to start, releases
// the run's `starts` lock. From then on, other runs detect this run by its containers.
class UnlockWhenStarted final : public ProgressListener {
 public:
  UnlockWhenStarted(Progress& progress, std::unique_ptr<RunLock>& lock) : progress_(progress), lock_(lock) {}
  void fact(const Fact& fact) override { progress_.fact(fact); }
  void remark(const std::string& line) override { progress_.remark(line); }
  void failure(const Fact& fact, const std::vector<std::string>& tail) override {
    progress_.failure(fact, tail);
  }
  void snapshot(const Snapshot& snapshot) override {
    if (!snapshot.may_start_more) lock_.reset();
    progress_.snapshot(snapshot);
  }

 private:
  Progress& progress_;
  std::unique_ptr<RunLock>& lock_;
};

// True if the run failed. Without --wait, a failure of an unmonitored trial after its start does not count,
// since the process ends when all trials have started. A stopped service does not make the run fail.
bool has_failed(const Experiment& experiment, const Outcome& outcome, Until until) {
  return std::ranges::any_of(outcome.unsuccessful, [&](const Fact& fact) {
    if (!fails_run(experiment.trials[fact.trial], fact.state, fact.cause)) return false;
    return until == Until::ended || !fact.ran || fact.cause == Cause::start_deadline ||
           is_monitored(experiment, experiment.trials[fact.trial]);
  });
}

bool is_outcome_collecting(const Outcome& outcome) {
  return outcome.last.count(TrialState::collecting) > 0;
}

bool is_over(const Outcome& outcome, Until until) {
  if (outcome.interrupted || outcome.last.may_start_more || is_outcome_collecting(outcome)) return false;
  return until == Until::ended || outcome.running.empty();
}

// True if the owner must stay while trials of the run are running.
bool is_monitored(const Experiment& experiment, Until until) {
  return until == Until::ended || std::ranges::any_of(experiment.trials, [&](const Trial& trial) {
           // The owner does not stay for the retries of a service. An ended service is retried only while the
           // owner stays for another reason.
           return trial.service ? trial.timeout > Seconds(0) || experiment.deadline > Seconds(0)
                                : is_monitored(experiment, trial);
         });
}

enum class Presence { needless, needed };

// Records whether the run needs an owner. Other commands show a run as interrupted if the run needs an owner
// and has none. Ignores errors of the record, since Recorder reports these errors.
void note_presence(Record& record, const RunId& run, Presence presence) {
  try {
    change_options(record, run,
                   [&](RunOptions& options) { options.monitored = presence == Presence::needed; });
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): Recorder reports errors of the record
  }
}

// Resolves the symbolic links in the run's host paths and records the targets, so that a resumed run uses the
// same files. If a recorded path resolves to a new target, prints a note and keeps the recorded target.
void record_host_paths(Session& session, Record& record, Run& run) {
  HostPaths now = resolved_host_paths(run.experiment);
  for (const auto& [path, known] : run.host_paths) {
    const auto found = now.find(path);
    if (found == now.end()) continue;
    if (found->second != known)
      session.progress().note(
          fmt::format("{} resolves to {}, but resolved to {} when run {} began; the run keeps using the "
                      "earlier target; `run` starts a new run with the current target",
                      path, found->second, known, run.id.text()));
    now.erase(found);
  }
  record.add_host_paths(run.id, now);
  run.host_paths.merge(now);
}

// Prints hints_of() the run. Most hints are of use only to an engine with exec(). Ignores errors of the
// record, since Recorder reports these errors.
void note_hints(Session& session, Record& record, const Run& run) {
  try {
    const RunEntry entry = record.run(run.id);
    for (const std::string& hint : hints_of(run.experiment, times_of(record.attempts(run.id, ""), entry)))
      session.progress().note("hint: " + hint);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): Recorder reports errors of the record
  }
}

// Drives the run. `loaded`: the run with its newest text. Returns nullopt if another process asked this
// process to hand over the run, in order to apply an edited file.
std::optional<Result> drive_run(const DrivenRun& run, Loaded& loaded, const Facts& facts,
                                const PlannerOptions& planner, const Digests& digests,
                                std::unique_ptr<RunLock>& lock) {
  Session& session = run.session;
  Record& record = run.record;
  session.progress().begin(loaded.run);
  const auto engine = session.patient_engine();
  Recorder recorder(session.progress(), record, loaded.run.id);
  const bool monitored = is_monitored(loaded.run.experiment, planner.until);
  note_presence(record, loaded.run.id, monitored ? Presence::needed : Presence::needless);
  try {
    record_host_paths(session, record, loaded.run);
    const bool is_simulated = record.runs({.id = loaded.run.id}, 1).at(0).engine.is_simulated;
    UnlockWhenStarted listener(session.progress(), lock);
    const std::string results = results_folder(loaded.run.experiment, loaded.run.id);
    const auto output_store = open_results(loaded);
    const auto telemetry = monitored || any_cached(loaded.run.experiment)
                               ? open_telemetry(session, state_folder(loaded.caller), loaded.run.id)
                               : nullptr;
    const auto cache_lookup = open_cache_lookup({.run = loaded.run,
                                                 .caller = loaded.caller,
                                                 .state_folder = state_folder(loaded.caller),
                                                 .output_store = *output_store,
                                                 .telemetry = telemetry.get(),
                                                 .progress = session.progress(),
                                                 .stop = session.stop()},
                                                digests, run.options.cache ? CacheUse::done : CacheUse::none);
    const Outcome outcome = drive(loaded.run, loaded.plan, planner,
                                  {.engine = *engine,
                                   .clock = real_clock(),
                                   .journal = recorder,
                                   .progress = listener,
                                   .stop = session.stop(),
                                   .steering = &run.owner.steering(),
                                   .output_store = output_store.get(),
                                   .telemetry = monitored ? telemetry.get() : nullptr,
                                   .cache_lookup = cache_lookup.get(),
                                   .reading = facts.reading});
    if (outcome.left) return std::nullopt;
    print_outcome(session.progress(), loaded.run, outcome,
                  {.until = planner.until,
                   .engine = session.given_engine(),
                   .keeps_containers = !is_simulated,
                   .last_line = last_lines_in(monitored ? telemetry.get() : nullptr)});
    if (monitored && telemetry != nullptr)
      note_silent_trials(session, loaded.run.experiment, outcome, *telemetry);
    if (output_store->holds_any()) session.progress().note(fmt::format("outputs are in {}", results));
    if (is_over(outcome, planner.until)) {
      recorder.end();
      if (facts.can_exec) note_hints(session, record, loaded.run);
    }
    // If the run was not interrupted and collects no outputs, its running trials are not monitored.
    if (!outcome.interrupted && !is_outcome_collecting(outcome))
      note_presence(record, loaded.run.id, Presence::needless);
    if (outcome.interrupted && session.stop().stop_requested()) return Result::interrupted;
    const bool is_failed =
        is_outcome_collecting(outcome) || has_failed(loaded.run.experiment, outcome, planner.until);
    return is_failed ? Result::failed : Result::succeeded;
  } catch (const Error& error) {
    session.progress().end();
    session.progress().error(error.what());
    session.progress().note(
        fmt::format("started trials are not removed: `{}` lists the trials, `{}` resumes the run, `{}` "
                    "removes the containers",
                    command_line(loaded.run.experiment, "ps", session.given_engine()),
                    resume_line(loaded.run.id, session.given_engine()),
                    command_line(loaded.run.experiment, "kill", session.given_engine())));
    return session.stop().stop_requested() ? Result::interrupted : result_of(error.kind());
  }
}

PlannerOptions planner_options(Engine& engine, const Run& run, const Facts& facts, const RunOptions& options,
                               const std::optional<Capacity>& capacity,
                               const std::optional<ResumePoint>& resume_point) {
  PlannerOptions planner{.starts_in_flight_max = options.starts_in_flight,
                         .pending_max = facts.pending_max,
                         .until = until_of(options),
                         .capacity = capacity ? std::optional(capacity->slots) : std::nullopt,
                         .gpus = capacity ? capacity->gpus : std::vector<Gpu>(),
                         .limits = engine.limits(run, capacity ? capacity->slots : facts.capacity),
                         .looks_up_cache = true};
  if (resume_point) {
    planner.restored = resume_point->trials;
    planner.began_at = resume_point->working_since;
    planner.engine_began_at = facts.began_at;
  }
  return planner;
}

// Waits until other processes have finished writing to the run's record.
void await_writers(Session& session, Record& record, const RunId& run) {
  while (!session.stop().stop_requested()) {
    try {
      return record.set_options(run, record.run(run).options);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::refused) throw;
      session.progress().note(error.what());
    }
  }
}

// Calls make_room() for the run. If make_room() fails, shows the errors and returns the Result that matches
// them. If the run is new, also records the run as killed, since the beginning of the run is already on
// record.
std::optional<Result> clear_earlier_runs(const DrivenRun& run, const std::set<RunId>& replaced,
                                         bool is_resumed) {
  const auto give_up = [&] {
    if (!is_resumed) record_kill(run.record, run.loaded.run.id);
  };
  std::vector<Error> errors;
  try {
    errors = make_room(run.session, run.record, run.loaded, replaced);
  } catch (const Error&) {
    give_up();
    throw;
  }
  if (!errors.empty()) {
    give_up();
    return refuse_start(run.session, errors);
  }
  for (const RunId& other : replaced)
    if (!run.record.runs({.id = other}, 1).empty()) record_kill(run.record, other);
  return std::nullopt;
}

// Shows why this process cannot continue the run, and returns the Result that matches the errors.
Result give_up(Session& session, const Loaded& loaded, const std::vector<Error>& errors) {
  session.progress().end();
  for (const Error& error : errors) session.progress().error(error.what());
  session.progress().note(fmt::format("the run is interrupted: `{}` resumes it",
                                      resume_line(loaded.run.id, session.given_engine())));
  return result_of(errors);
}

}  // namespace

Result execute(const DrivenRun& run, Readiness ready, const std::optional<ResumePoint>& resume_point) {
  auto& [session, record, loaded, options, owner] = run;
  if (const auto refused = clear_earlier_runs(run, ready.replaced, resume_point.has_value())) return *refused;
  owner.leave_foreground(loaded);
  std::unique_ptr<RunLock> starts = std::move(ready.starts);
  auto result = drive_run(
      run, loaded, ready.facts,
      planner_options(session.engine(), loaded.run, ready.facts, options, ready.capacity, resume_point),
      ready.prepared.digests, starts);
  std::size_t parallel_max = loaded.run.experiment.parallel_max;
  while (!result) {
    const bool was_given_back = owner.hand_over(session.stop());
    if (!was_given_back) await_writers(session, record, loaded.run.id);
    const RunEntry entry = record.run(loaded.run.id);
    Loaded newest = load_newest(record, entry, run_options_of(entry.options));
    const ResumePoint here = resume_point_of(record, entry, newest);
    if (const auto errors = read_secrets(session, newest); !errors.empty())
      return give_up(session, newest, errors);
    const Experiment& now = newest.run.experiment;
    if (std::exchange(parallel_max, now.parallel_max) != now.parallel_max)
      (void)owner.steering().post({.parallel_max = now.parallel_max}, [](const Settings&) {});
    if (!starts) starts = acquire_lock(LockScope::starts, session, newest);
    session.progress().note(fmt::format(
        "run {}: {}", loaded.run.id.text(),
        was_given_back ? "the edited file has been applied"
                       : "an `apply` did not finish in time; the run continues without the edited file"));
    const Facts facts = session.engine().facts(session.stop());
    const auto capacity = capacity_for(session, facts, now, options);
    result =
        drive_run(run, newest, facts,
                  planner_options(session.engine(), newest.run, facts, options, capacity, here), {}, starts);
  }
  return *result;
}

}  // namespace combu
