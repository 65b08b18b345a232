#include "app/execution.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_set>
#include <utility>

#include "app/capacity.hpp"
#include "app/kept_logs.hpp"
#include "app/outputs.hpp"
#include "app/reconcile.hpp"
#include "app/record_kill.hpp"
#include "app/recorder.hpp"
#include "combu/inputs.hpp"
#include "combu/json.hpp"
#include "combu/jsonnet.hpp"
#include "combu/reuse.hpp"
#include "combu/session.hpp"
#include "combu/text.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

// As long as another user's run may be between two trials.
constexpr Seconds k_second_look{1};

Result tell_errors(Session& session, const std::vector<Error>& errors) {
  session.progress().end();
  for (const Error& error : errors) session.progress().error(error.what());
  session.progress().note("nothing was started");
  return result_of(errors);
}

std::set<RunId> runs_that_live(const std::vector<Sighting>& earlier) {
  std::set<RunId> runs;
  for (const Sighting& sighting : earlier)
    if (sighting.phase == Phase::running) runs.insert(sighting.key.run);
  return runs;
}

// Whether one of them lives indeed: a listing may be a moment behind.
bool any_lives(Session& session, const std::vector<Sighting>& earlier) {
  return std::ranges::any_of(earlier, [&](const Sighting& seen) {
    if (seen.phase != Phase::running) return false;
    const Selector one{.experiment = seen.experiment, .run = seen.key.run, .trials = {seen.key.trial}};
    return std::ranges::any_of(session.engine().list(one, Look::closely, session.stop()),
                               [](const Sighting& now) { return now.phase == Phase::running; });
  });
}

// What the engine has of the experiment's other runs.
std::vector<Sighting> list_others(Session& session, const Run& run) {
  std::vector<Sighting> others =
      session.engine().list({.experiment = run.experiment.name}, Look::once, session.stop());
  std::erase_if(others, [&](const Sighting& seen) { return seen.key.run == run.id; });
  return others;
}

Error still_lives(const Experiment& experiment, const std::vector<Sighting>& earlier,
                  std::string_view engine) {
  const auto count = std::count_if(earlier.begin(), earlier.end(),
                                   [](const Sighting& seen) { return seen.phase == Phase::running; });
  return {ErrorKind::conflict, experiment.name,
          fmt::format("{} of its trials still run, of an earlier run; `{}` removes them, or "
                      "`run --replace` does so first",
                      count, command_line(experiment, "kill", engine))};
}

Until until_of(const RunOptions& options) {
  return options.wait ? Until::ended : Until::started;
}

// What the engine and the caller's folders would refuse, all of it. Nothing is made.
std::vector<Error> look_ahead(Session& session, const Loaded& loaded, const std::optional<Capacity>& capacity,
                              const RunOptions& options) {
  session.progress().phase("checking");
  std::vector<Error> errors = session.engine().check(loaded.run, session.stop());
  if (capacity)
    std::ranges::move(check_slots(loaded.run.experiment, capacity->slots, capacity->gpus, until_of(options)),
                      std::back_inserter(errors));
  const bool is_here = !session.engine_address().starts_with("tcp://");
  std::ranges::move(
      check_host_paths(loaded.run.experiment, is_here ? EngineHost::this_machine : EngineHost::another),
      std::back_inserter(errors));
  std::ranges::move(check_results(loaded, session.stop()), std::back_inserter(errors));
  return errors;
}

// Images and networks, then the absent folders of volumes.
std::vector<Error> prepare(Session& session, const Loaded& loaded, Prepared& prepared) {
  session.progress().phase("preparing images and networks");
  const auto began = std::chrono::steady_clock::now();
  std::mutex mutex;
  const auto tell = [&](const Preparation& preparation) {
    if (preparation.kind != Preparation::Kind::found) return session.progress().preparation(preparation);
    const std::scoped_lock lock(mutex);
    const std::pair image(preparation.name, preparation.platform);
    prepared.digests[image] = digest_in(preparation.digest);
    prepared.references[image] = preparation.digest;
  };
  std::vector<Error> errors = session.engine().prepare(loaded.run, tell, session.stop());
  if (!errors.empty()) return errors;
  HostFolders folders = make_host_folders(loaded.run.experiment, loaded.caller);
  for (const std::string& folder : folders.made)
    session.progress().note(fmt::format("made the folder {}", folder));
  prepared.took = std::chrono::steady_clock::now() - began;
  return std::move(folders.errors);
}

// Containers of earlier runs make room: all of a run that is replaced, of others the ended ones whose names
// are needed again. Removes nothing if one of these is `uncollected`.
std::vector<Error> make_room(Session& session, const Experiment& experiment,
                             const std::vector<Sighting>& earlier, const std::set<RunId>& replaced,
                             const Uncollected& uncollected) {
  std::unordered_set<std::string_view> names;
  for (const Trial& trial : experiment.trials) names.insert(trial.name);
  std::vector<Error> errors;
  std::map<RunId, Selector> selectors;
  for (const Sighting& sighting : earlier) {
    if (!replaced.contains(sighting.key.run) && !names.contains(sighting.key.trial)) continue;
    if (const auto why = uncollected.find(sighting.key); why != uncollected.end())
      errors.emplace_back(
          ErrorKind::conflict, sighting.key.trial,
          fmt::format(
              "its container of run {} stays: {}; `{}` removes it", sighting.key.run.text(), why->second,
              command_line(experiment, fmt::format("kill --run {} --discard", sighting.key.run.text()),
                           session.given_engine())));
    Selector& selector = selectors[sighting.key.run];
    selector.experiment = experiment.name;
    selector.run = sighting.key.run;
    // By their names, since the networks of a run that is replaced serve the next one.
    selector.trials.push_back(sighting.key.trial);
  }
  if (!errors.empty()) return errors;
  for (const auto& [run, selector] : selectors) {
    const Released released = session.engine().release(selector, {}, session.stop());
    errors.insert(errors.end(), released.left.begin(), released.left.end());
    const bool was_replaced = replaced.contains(run);
    const bool one = released.attempts == 1;
    session.progress().note(
        fmt::format("removed {} of run {}, {}",
                    number_of(released.attempts, was_replaced ? "container" : "old container"), run.text(),
                    was_replaced ? "which is replaced"
                    : one        ? "whose name is needed again"
                                 : "whose names are needed again"));
  }
  return errors;
}

// Shows the run, and releases its lock when nothing is left to start: from then on its containers show other
// runs that it exists.
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

// Whoever only starts is done when all have been started, however those fare that nobody watches. A service
// that was stopped is no failure of the run.
bool has_failed(const Experiment& experiment, const Outcome& outcome, Until until) {
  return std::ranges::any_of(outcome.unsuccessful, [&](const Fact& fact) {
    if (!fails_run(experiment.trials[fact.trial], fact.state, fact.cause)) return false;
    return until == Until::ended || !fact.ran || fact.cause == Cause::start_deadline ||
           is_watched(experiment, experiment.trials[fact.trial]);
  });
}

bool is_outcome_collecting(const Outcome& outcome) {
  return outcome.last.count(TrialState::collecting) > 0;
}

bool is_over(const Outcome& outcome, Until until) {
  if (outcome.interrupted || outcome.last.may_start_more || is_outcome_collecting(outcome)) return false;
  return until == Until::ended || outcome.running.empty();
}

// Whether somebody has to stay while its trials run.
bool is_watched(const Experiment& experiment, Until until) {
  return until == Until::ended || std::ranges::any_of(experiment.trials, [&](const Trial& trial) {
           // A service that ends is tried again only as long as there is something else to stay for.
           return trial.service ? trial.timeout > Seconds(0) || experiment.deadline > Seconds(0)
                                : is_watched(experiment, trial);
         });
}

enum class Presence { needless, needed };

// Others tell by it whether a run that nobody is at work on was left so. Where the record cannot be written,
// that tells the same.
void note_presence(Record& record, const RunId& run, Presence presence) {
  try {
    change_options(record, run, [&](RunOptions& options) { options.watched = presence == Presence::needed; });
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): a record that cannot be written tells the same
  }
}

// Where the run's paths on this machine lead, from here on: what is not on record yet is found out now.
void keep_host_paths(Session& session, Record& record, Run& run) {
  HostPaths now = resolved_host_paths(run.experiment);
  for (const auto& [path, known] : run.host_paths) {
    const auto found = now.find(path);
    if (found == now.end()) continue;
    if (found->second != known)
      session.progress().note(fmt::format(
          "{} leads to {}, and led to {} when run {} began, which still uses that; `run` begins a new run",
          path, found->second, known, run.id.text()));
    now.erase(found);
  }
  record.add_host_paths(run.id, now);
  run.host_paths.merge(now);
}

// nullopt if the run is at rest because another process is to revise it.
std::optional<Result> drive_run(Session& session, Record& record, Loaded& loaded,
                                const PlannerOptions& planner, const Digests& digests, Recall recall,
                                std::unique_ptr<RunLock>& lock, RunOwner& owner) {
  session.progress().begin(loaded.run);
  const auto engine = session.patient_engine();
  Recorder recorder(session.progress(), record, loaded.run.id);
  const bool watched = is_watched(loaded.run.experiment, planner.until);
  note_presence(record, loaded.run.id, watched ? Presence::needed : Presence::needless);
  try {
    keep_host_paths(session, record, loaded.run);
    const bool is_simulated = record.runs({.id = loaded.run.id}, 1).at(0).engine.is_simulated;
    UnlockWhenStarted listener(session.progress(), lock);
    const std::string results = results_folder(loaded.run.experiment, loaded.run.id);
    const auto depot = open_results(loaded);
    const auto telemetry = watched || any_cached(loaded.run.experiment)
                               ? open_telemetry(session, state_folder(loaded.caller), loaded.run.id)
                               : nullptr;
    const auto memory = open_memory({.run = loaded.run,
                                     .caller = loaded.caller,
                                     .state_folder = state_folder(loaded.caller),
                                     .depot = *depot,
                                     .telemetry = telemetry.get(),
                                     .progress = session.progress(),
                                     .stop = session.stop()},
                                    digests, recall);
    const Outcome outcome = drive(loaded.run, loaded.plan, planner,
                                  {.engine = *engine,
                                   .clock = real_clock(),
                                   .journal = recorder,
                                   .progress = listener,
                                   .stop = session.stop(),
                                   .steering = &owner.steering(),
                                   .depot = depot.get(),
                                   .telemetry = watched ? telemetry.get() : nullptr,
                                   .memory = memory.get()});
    if (outcome.left) return std::nullopt;
    print_outcome(session.progress(), loaded.run, outcome,
                  {.until = planner.until,
                   .engine = session.given_engine(),
                   .keeps_containers = !is_simulated,
                   .last_line = last_lines_in(watched ? telemetry.get() : nullptr)});
    if (watched && telemetry != nullptr) tell_silent(session, loaded.run.experiment, outcome, *telemetry);
    if (depot->holds_any()) session.progress().note(fmt::format("outputs are in {}", results));
    if (is_over(outcome, planner.until)) recorder.end();
    // What runs still is nobody's to watch.
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
        fmt::format("what has been started stays: `{}` shows it, `{}` goes on with it, `{}` removes it",
                    command_line(loaded.run.experiment, "ps", session.given_engine()),
                    resume_line(loaded.run.id, session.given_engine()),
                    command_line(loaded.run.experiment, "kill", session.given_engine())));
    return session.stop().stop_requested() ? Result::interrupted : result_of(error.kind());
  }
}

PlannerOptions planner_options(Session& session, const RunOptions& options,
                               const std::optional<Capacity>& capacity,
                               const std::optional<Standing>& standing) {
  PlannerOptions planner{.starts_in_flight_max = options.starts_in_flight,
                         .until = until_of(options),
                         .capacity = capacity ? std::optional(capacity->slots) : std::nullopt,
                         .gpus = capacity ? capacity->gpus : std::vector<Gpu>(),
                         .recalls = true};
  if (standing) {
    planner.past = standing->past;
    planner.began_at = standing->working_since;
    planner.engine_began_at = session.engine().facts(session.stop()).began_at;
  }
  return planner;
}

// Whoever is at work on a run that is replaced would see its trials end, and try them again.
void interrupt_replaced(Session& session, const Loaded& loaded, const std::set<RunId>& replaced) {
  for (const RunId& run : replaced)
    interrupt_processes(session, {.run = run}, "combu run --replace", loaded.caller);
}

// What makes room is gone with its exit codes, its outputs and its logs.
Uncollected take_in_earlier(Session& session, Record& record, const Loaded& loaded,
                            const std::vector<Sighting>& others) {
  Uncollected uncollected;
  for (const RunId& run : runs_of(others))
    for (const RunEntry& entry : record.runs({.id = run}, 1)) {
      if (owner_pid(run, loaded.caller)) continue;
      if (!entry.ended_at) {
        reconcile_run(session, record, run, Outlook::ended);
        uncollected.merge(bring_home(session, record, run));
      }
      uncollected.merge(
          keep_logs(session, record, state_folder(loaded.caller), run, others, Containers::about_to_go));
    }
  return uncollected;
}

// What others have by now of the experiment, which may be more than at the beginning; an error when something
// of it lives that is not replaced. A run that is not on the caller's record may be another user's, which
// only its containers tell of.
std::vector<Sighting> look_again(Session& session, Record& record, const Loaded& loaded,
                                 const std::set<RunId>& replaced, std::vector<Error>& errors) {
  std::vector<Sighting> others;
  const auto look = [&] {
    others = list_others(session, loaded.run);
    std::vector<Sighting> kept;
    std::ranges::copy_if(others, std::back_inserter(kept),
                         [&](const Sighting& seen) { return !replaced.contains(seen.key.run); });
    if (any_lives(session, kept))
      errors.push_back(still_lives(loaded.run.experiment, kept, session.given_engine()));
    return kept;
  };
  const std::vector<Sighting> kept = look();
  const bool is_anothers = std::ranges::any_of(
      runs_of(kept), [&](const RunId& run) { return record.runs({.id = run}, 1).empty(); });
  if (errors.empty() && is_anothers) {
    real_clock().wait(k_second_look, session.stop());
    look();
  }
  return others;
}

// Room for the run, whose beginning is on record: what lives now and is not replaced is an error.
std::vector<Error> clear(Session& session, Record& record, const Loaded& loaded,
                         const std::set<RunId>& replaced) {
  interrupt_replaced(session, loaded, replaced);
  std::vector<Error> errors;
  const std::vector<Sighting> others = look_again(session, record, loaded, replaced, errors);
  if (!errors.empty()) return errors;
  const Uncollected uncollected = take_in_earlier(session, record, loaded, others);
  return make_room(session, loaded.run.experiment, others, replaced, uncollected);
}

// While it lives, a wait for the record is told.
class WaitsTold {
 public:
  WaitsTold(Record& record, Session& session) : record_(record) {
    record_.on_wait([&session] {
      session.progress().note("another process is writing to the record: waiting for it, 20 s at most");
    });
  }
  ~WaitsTold() { record_.on_wait({}); }
  WaitsTold(const WaitsTold&) = delete;
  WaitsTold& operator=(const WaitsTold&) = delete;

 private:
  Record& record_;
};

// Whoever has begun to write the run's record has done so then.
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

}  // namespace

RunEntry entry_of(Session& session, Loaded& loaded, const RunOptions& options, const Prepared& prepared) {
  const Facts facts = session.engine().facts(session.stop());
  return {.id = loaded.run.id,
          .experiment = loaded.run.experiment.name,
          .file = loaded.run.experiment.file,
          .folder = loaded.caller.folder,
          .text = std::move(loaded.text),
          .arguments = json_text(nlohmann::json(loaded.arguments)),
          .options = to_json(options),
          .revision = loaded.revision.commit,
          .revision_dirty = loaded.revision.dirty,
          .working_tree = std::move(loaded.revision.working_tree),
          .engine = {.address = session.engine_address(),
                     .description = facts.engine,
                     .is_simulated = facts.is_simulated},
          .user = user_name(),
          .machine = machine_name(),
          .program = fmt::format("combu {} ({})", COMBU_VERSION, evaluator()),
          .evaluated_in = loaded.evaluated_in,
          .prepared_in = prepared.took,
          .digests = prepared.digests,
          .references = prepared.references,
          .results = results_folder(loaded.run.experiment, loaded.run.id),
          .began_at = real_clock().now(),
          .ended_at = std::nullopt};
}

std::vector<Error> make_ready(Session& session, const Loaded& loaded, const RunOptions& options,
                              Prepared& prepared) {
  std::vector<Error> errors =
      look_ahead(session, loaded, capacity_for(session, loaded.run.experiment, options), options);
  return errors.empty() ? prepare(session, loaded, prepared) : errors;
}

Result execute(Session& session, Record& record, Loaded& loaded, const RunOptions& options, Earlier earlier,
               RunOwner& owner, const std::function<std::optional<Standing>(const Prepared&)>& enter) {
  const WaitsTold waits(record, session);
  const Experiment& experiment = loaded.run.experiment;
  std::unique_ptr<RunLock> starts = take_lock(LockScope::starts, session, loaded);
  const std::optional<Capacity> capacity = capacity_for(session, experiment, options);
  const std::vector<Sighting> others = list_others(session, loaded.run);
  const std::set<RunId> replaced = earlier == Earlier::replace ? runs_that_live(others) : std::set<RunId>();
  std::vector<Error> errors;
  if (earlier == Earlier::refuse && any_lives(session, others)) {
    errors.push_back(still_lives(experiment, others, session.given_engine()));
  } else {
    errors = look_ahead(session, loaded, capacity, options);
  }
  Prepared prepared;
  if (errors.empty()) errors = prepare(session, loaded, prepared);
  if (!errors.empty()) return tell_errors(session, errors);
  const std::optional<Standing> standing = enter(prepared);
  const auto give_up = [&] {
    if (!standing) record_kill(record, loaded.run.id);
  };
  try {
    errors = clear(session, record, loaded, replaced);
  } catch (const Error&) {
    give_up();
    throw;
  }
  if (!errors.empty()) {
    give_up();
    return tell_errors(session, errors);
  }
  for (const RunId& run : replaced)
    if (!record.runs({.id = run}, 1).empty()) record_kill(record, run);
  owner.leave_foreground(loaded);
  const Recall recall = options.cache ? Recall::done : Recall::none;
  auto result = drive_run(session, record, loaded, planner_options(session, options, capacity, standing),
                          prepared.digests, recall, starts, owner);
  std::size_t parallel_max = experiment.parallel_max;
  while (!result) {
    const bool was_given_back = owner.hand_over(session.stop());
    if (!was_given_back) await_writers(session, record, loaded.run.id);
    Loaded revised = load(record, loaded.run.id, Texts::newest);
    const RunEntry entry = record.run(loaded.run.id);
    forgive(revised.run.experiment, entry);
    override_fields(revised.run.experiment, run_options_of(entry.options));
    const Experiment& now = revised.run.experiment;
    if (std::exchange(parallel_max, now.parallel_max) != now.parallel_max)
      (void)owner.steering().post({.parallel_max = now.parallel_max}, [](const Settings&) {});
    const Standing here{.past = record.past(loaded.run.id), .working_since = entry.working_since};
    expect_env_files(now, here.past);
    if (!starts) starts = take_lock(LockScope::starts, session, revised);
    session.progress().note(fmt::format(
        "run {}: {}", loaded.run.id.text(),
        was_given_back ? "its file has been applied" : "an `apply` took too long, and was given up"));
    result = drive_run(session, record, revised,
                       planner_options(session, options, capacity_for(session, now, options), here), {},
                       recall, starts, owner);
  }
  return *result;
}

}  // namespace combu
