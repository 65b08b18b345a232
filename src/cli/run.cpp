#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>

#include "cli/commands.hpp"
#include "cli/load.hpp"
#include "cli/only.hpp"
#include "cli/run_lock.hpp"
#include "cli/session.hpp"

namespace combu {
namespace {

struct RunOptions {
  bool wait = false;
  bool replace = false;
  std::size_t starts_in_flight = PlannerOptions{}.starts_in_flight_max;
  std::string parallel = "true";
  std::string run_id;
  std::string reserve;
  std::vector<std::string> only;
};

int tell_errors(Session& session, const std::vector<Error>& errors) {
  session.progress().end();
  for (const Error& error : errors) session.progress().error(error.what());
  session.progress().note("nothing was started");
  return exit_code(errors);
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

Error still_lives(const Experiment& experiment, const std::vector<Sighting>& earlier,
                  std::string_view engine) {
  const auto count = std::count_if(earlier.begin(), earlier.end(),
                                   [](const Sighting& seen) { return seen.phase == Phase::running; });
  return {ErrorKind::conflict, experiment.name,
          fmt::format("{} of its trials still run, of an earlier run; `{}` removes them, or "
                      "`run --replace` does so first",
                      count, command_line(experiment, "kill", engine))};
}

// What the engine and the caller's folders would refuse, all of it. Nothing is made.
std::vector<Error> look_ahead(Session& session, const Loaded& loaded, const std::optional<Slots>& capacity) {
  session.progress().phase("checking");
  std::vector<Error> errors = session.engine().check(loaded.run, session.stop());
  if (capacity) std::ranges::move(check_slots(loaded.run.experiment, *capacity), std::back_inserter(errors));
  std::ranges::move(check_host_paths(loaded.run.experiment), std::back_inserter(errors));
  return errors;
}

// Images and networks, then the absent folders of volumes.
std::vector<Error> prepare(Session& session, const Loaded& loaded) {
  session.progress().phase("preparing images and networks");
  const auto tell = [&](const Preparation& preparation) { session.progress().preparation(preparation); };
  std::vector<Error> errors = session.engine().prepare(loaded.run, tell, session.stop());
  if (!errors.empty()) return errors;
  HostFolders folders = make_host_folders(loaded.run.experiment, loaded.caller);
  for (const std::string& folder : folders.made)
    session.progress().note(fmt::format("made the folder {}", folder));
  return std::move(folders.errors);
}

// Containers of earlier runs make room: all of a run that is replaced, of others the ended ones whose names
// are needed again.
std::vector<Error> make_room(Session& session, const Experiment& experiment,
                             const std::vector<Sighting>& earlier, const std::set<RunId>& replaced) {
  std::unordered_set<std::string_view> names;
  for (const Trial& trial : experiment.trials) names.insert(trial.name);
  std::map<RunId, Selector> selectors;
  for (const Sighting& sighting : earlier) {
    if (!replaced.contains(sighting.key.run) && !names.contains(sighting.key.trial)) continue;
    Selector& selector = selectors[sighting.key.run];
    selector.experiment = experiment.name;
    selector.run = sighting.key.run;
    // By their names, since the networks of a run that is replaced serve the next one.
    selector.trials.push_back(sighting.key.trial);
  }
  std::vector<Error> errors;
  for (const auto& [run, selector] : selectors) {
    const Released released = session.engine().release(selector, {}, session.stop());
    errors.insert(errors.end(), released.left.begin(), released.left.end());
    const bool was_replaced = replaced.contains(run);
    const bool one = released.attempts == 1;
    session.progress().note(fmt::format("removed {} {}container{} of run {}, {}", released.attempts,
                                        was_replaced ? "" : "old ", one ? "" : "s", run.text(),
                                        was_replaced ? "which is replaced"
                                        : one        ? "whose name is needed again"
                                                     : "whose names are needed again"));
  }
  return errors;
}

// Passes all on, and lets go of the lock when there is nothing left to start: from then on what lives tells
// other runs that this one is there.
class UnlockWhenStarted final : public Observer {
 public:
  UnlockWhenStarted(Observer& next, std::optional<RunLock>& lock) : next_(next), lock_(lock) {}
  void fact(const Fact& fact) override { next_.fact(fact); }
  void tail(TrialIndex trial, const std::vector<std::string>& lines) override { next_.tail(trial, lines); }
  void snapshot(const Snapshot& snapshot) override {
    if (!snapshot.may_start_more) lock_.reset();
    next_.snapshot(snapshot);
  }

 private:
  Observer& next_;
  std::optional<RunLock>& lock_;
};

// Whoever only starts is done when all have been started, however those fare that nobody watches.
bool has_failed(const Experiment& experiment, const Outcome& outcome, Until until) {
  return std::ranges::any_of(outcome.unsuccessful, [&](const Fact& fact) {
    return until == Until::ended || !fact.ran || fact.cause == Cause::start_deadline ||
           is_watched(experiment, experiment.trials[fact.trial]);
  });
}

// "2,4GiB", "2" or "4GiB": CPUs, memory, or both.
Slots reserve_option(const std::string& text) {
  Slots reserve;
  for (std::size_t at = 0; at <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    if (part.find_first_not_of("0123456789.") == std::string::npos && !part.empty()) {
      reserve.cpus = cpus_option("--reserve", part);
    } else {
      reserve.memory = bytes_option("--reserve", part);
    }
    at = end + 1;
  }
  return reserve;
}

// What the run's attempts may hold together with all others on the engine; nullopt when none of them asks for
// slots.
std::optional<Slots> capacity_for(Session& session, const Experiment& experiment, const RunOptions& options) {
  const Slots reserve = reserve_option(options.reserve);
  const bool asked =
      std::ranges::any_of(experiment.trials, [](const Trial& trial) { return !trial.slots.empty(); });
  if (!asked) return std::nullopt;
  Slots capacity = session.engine().facts(session.stop()).capacity;
  capacity -= reserve;
  return capacity;
}

int carry_out(Session& session, const Loaded& loaded, const std::optional<Slots>& capacity,
              const RunOptions& options, std::optional<RunLock>& lock) {
  const PlannerOptions planner{
      .starts_in_flight_max = options.parallel == "false" ? 1 : options.starts_in_flight,
      .until = options.wait ? Until::ended : Until::started,
      .capacity = capacity};
  session.progress().begin(loaded.run);
  const auto engine = session.patient_engine();
  try {
    UnlockWhenStarted observer(session.progress(), lock);
    const Outcome outcome =
        drive(*engine, loaded.run, loaded.plan, planner, observer, real_clock(), session.stop());
    print_outcome(session.progress(), loaded.run, outcome, planner.until, session.given_engine());
    if (outcome.interrupted && session.signal_code() != 0) return session.signal_code();
    return has_failed(loaded.run.experiment, outcome, planner.until) ? 1 : 0;
  } catch (const Error& error) {
    session.progress().end();
    session.progress().error(error.what());
    session.progress().note(fmt::format("what has been started stays: `{}` shows it, `{}` removes it",
                                        command_line(loaded.run.experiment, "ps", session.given_engine()),
                                        command_line(loaded.run.experiment, "kill", session.given_engine())));
    if (session.signal_code() != 0) return session.signal_code();
    return exit_code(error.kind());
  }
}

// Where no lock can be had there is none: the run is worth more.
void take(std::optional<RunLock>& lock, Session& session, const Loaded& loaded) {
  try {
    lock.emplace(loaded.run, session.engine_address(), loaded.caller, session.stop());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::refused) throw;
    session.progress().note(
        fmt::format("two runs at the same instant would not be noticed: {}", error.what()));
  }
}

// Everything that can be refused comes before anything is removed, and that before the first start.
int run(Session& session, const Loaded& loaded, const RunOptions& options) {
  const Experiment& experiment = loaded.run.experiment;
  std::optional<RunLock> lock;
  take(lock, session, loaded);
  const std::optional<Slots> capacity = capacity_for(session, experiment, options);
  const std::vector<Sighting> earlier =
      session.engine().list({.experiment = experiment.name}, Look::once, session.stop());
  const std::set<RunId> replaced = options.replace ? runs_that_live(earlier) : std::set<RunId>();
  std::vector<Error> errors;
  if (!options.replace && any_lives(session, earlier)) {
    errors.push_back(still_lives(experiment, earlier, session.given_engine()));
  } else {
    errors = look_ahead(session, loaded, capacity);
  }
  if (errors.empty()) errors = prepare(session, loaded);
  if (errors.empty()) errors = make_room(session, experiment, earlier, replaced);
  if (!errors.empty()) return tell_errors(session, errors);
  return carry_out(session, loaded, capacity, options, lock);
}

int run(const Invocation& invocation, const RunOptions& options) {
  auto progress = open_progress(invocation);
  const RunId id = options.run_id.empty() ? RunId::random() : RunId(options.run_id);
  auto loaded = load(invocation, id, *progress);
  if (!loaded) return 2;
  if (!options.only.empty()) {
    loaded->run.experiment = only(std::move(loaded->run.experiment), loaded->plan, options.only);
    loaded->plan = make_plan(loaded->run.experiment).plan;
  }
  return in_session(invocation, std::move(progress), [&](Session& session) {
    try {
      return run(session, *loaded, options);
    } catch (const Error& error) {
      session.progress().end();
      if (error.kind() == ErrorKind::cancelled) session.progress().note("interrupted: nothing was started");
      throw;
    }
  });
}

}  // namespace

void add_run(CLI::App& app, const Invocation& invocation, Action& action) {
  CLI::App* command = app.add_subcommand("run", "Start all trials, each when what it depends on is so");
  const auto options = std::make_shared<RunOptions>();
  command->add_flag("--wait", options->wait,
                    "Stay until every trial is over; the exit code is 1 when one failed");
  command->add_flag("--replace", options->replace, "Remove what still runs of an earlier run first");
  command->add_option("--starts-in-flight", options->starts_in_flight, "Most starts at the same time")
      ->type_name("N")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("-p,--parallel", options->parallel, "false: one start after another")
      ->check(CLI::IsMember({"true", "false"}))
      ->type_name("BOOL")
      ->capture_default_str();
  command
      ->add_option("--only", options->only,
                   "Only trials of this name (solver-a-*) or these params (lr<0.01), and what they depend on")
      ->type_name("TRIALS")
      ->allow_extra_args(false);
  command
      ->add_option("--reserve", options->reserve,
                   "CPUs, memory or both (2,4GiB) of the engine's that no trial gets")
      ->type_name("SLOTS");
  command
      ->add_option("--run-id", options->run_id, "The run's id, and what replaces \"UUID\"; else a random one")
      ->type_name("ID");
  command->footer("Example:\n  combu -f experiment.jsonnet run --wait");
  command->callback([&invocation, &action, options] {
    action = [&invocation, options] { return run(invocation, *options); };
  });
}

}  // namespace combu
