#include "app/earlier_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_set>

#include "app/outputs.hpp"
#include "app/reconcile.hpp"
#include "app/run_owner.hpp"
#include "app/run_telemetry.hpp"
#include "app/uncollected.hpp"
#include "combu/text.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

// Duration of the wait before the containers of another user's run are listed again. combu assumes that the
// run starts its next container within this duration.
constexpr Seconds k_second_look{1};

std::set<RunId> runs_that_live(const std::vector<Observation>& earlier) {
  std::set<RunId> runs;
  for (const Observation& observation : earlier)
    if (is_alive(observation)) runs.insert(observation.key.run);
  return runs;
}

// True if any attempt in `earlier` still runs, or is pending and will run. Lists each attempt again with
// ListDetail::consistent, since the listing in `earlier` may be slightly out of date.
bool any_lives(Session& session, const std::vector<Observation>& earlier) {
  return std::ranges::any_of(earlier, [&](const Observation& seen) {
    if (!is_alive(seen)) return false;
    const Selector one{.experiment = seen.experiment, .run = seen.key.run, .trials = {seen.key.trial}};
    return std::ranges::any_of(session.engine().list(one, ListDetail::consistent, session.stop()),
                               [](const Observation& now) { return is_alive(now); });
  });
}

// Returns the containers of all runs of the experiment except `run`.
std::vector<Observation> list_others(Session& session, const Run& run) {
  std::vector<Observation> others =
      session.engine().list({.experiment = run.experiment.name}, ListDetail::basic, session.stop());
  std::erase_if(others, [&](const Observation& seen) { return seen.key.run == run.id; });
  return others;
}

Error still_lives(const Experiment& experiment, const std::vector<Observation>& earlier,
                  std::string_view engine) {
  const auto count_in = [&](Phase phase) {
    return static_cast<std::size_t>(std::ranges::count(earlier, phase, &Observation::phase));
  };
  const std::size_t pending = count_in(Phase::pending);
  const std::string_view what = pending == 0 ? "running trial" : "running or pending trial";
  return {ErrorKind::conflict, experiment.name,
          fmt::format("an earlier run still has {}; remove them with `{}`, or start with `run --replace`",
                      number_of(count_in(Phase::running) + pending, what),
                      command_line(experiment, "kill", engine))};
}

// Removes all containers of the `replaced` runs. From other earlier runs, removes only ended containers whose
// names the new run needs. If any container to remove is in `uncollected`, removes nothing and returns the
// reasons.
std::vector<Error> remove_containers(Session& session, const Experiment& experiment,
                                     const std::vector<Observation>& earlier, const std::set<RunId>& replaced,
                                     const Uncollected& uncollected) {
  std::unordered_set<std::string_view> names;
  for (const Trial& trial : experiment.trials) names.insert(trial.name);
  std::vector<Error> errors;
  std::map<RunId, Selector> selectors;
  for (const Observation& observation : earlier) {
    if (!replaced.contains(observation.key.run) && !names.contains(observation.key.trial)) continue;
    if (const auto why = uncollected.find(observation.key); why != uncollected.end())
      errors.emplace_back(
          ErrorKind::conflict, observation.key.trial,
          fmt::format(
              "the container of run {} was not removed: {}; `{}` removes the container",
              observation.key.run.text(), why->second,
              command_line(experiment, fmt::format("kill --run {} --discard", observation.key.run.text()),
                           session.given_engine())));
    Selector& selector = selectors[observation.key.run];
    selector.experiment = experiment.name;
    selector.run = observation.key.run;
    // If the selector names trials, release() removes no networks. The networks of a replaced run must stay,
    // because the new run uses them.
    selector.trials.push_back(observation.key.trial);
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
                    : one        ? "because the new run needs its name"
                                 : "because the new run needs their names"));
  }
  return errors;
}

// Interrupts the owners of the replaced runs. An owner that is not interrupted would see its trials end and
// would retry them.
void interrupt_replaced(Session& session, const Loaded& loaded, const std::set<RunId>& replaced) {
  for (const RunId& run : replaced)
    interrupt_processes(session, {.run = run}, "combu run --replace", loaded.caller);
}

// Collects the outputs and logs of ended containers before they are removed, and records their exit codes.
Uncollected reconcile_earlier(Session& session, Record& record, const Loaded& loaded,
                              const std::vector<Observation>& others) {
  Uncollected uncollected;
  for (const RunId& run : runs_of(others))
    for (const RunEntry& entry : record.runs({.id = run}, 1)) {
      if (owner_pid(run, loaded.caller)) continue;
      if (!entry.ended_at) {
        reconcile_run(session, record, run, Outlook::ended);
        uncollected.merge(collect_remaining(session, record, run));
      }
      uncollected.merge(
          save_logs(session, record, state_folder(loaded.caller), run, others, Containers::about_to_go));
    }
  return uncollected;
}

// Lists the containers of the experiment's other runs again, since other processes may have started
// containers after the first listing. If a container of a run that is not in `replaced` still runs, adds an
// error to `errors`. A run that is not on the caller's record belongs to another user and may have no running
// container for a moment, between two trials. If there is a run of another user, lists the containers once
// more after k_second_look.
std::vector<Observation> look_again(Session& session, Record& record, const Loaded& loaded,
                                    const std::set<RunId>& replaced, std::vector<Error>& errors) {
  std::vector<Observation> others;
  const auto look = [&] {
    others = list_others(session, loaded.run);
    std::vector<Observation> kept;
    std::ranges::copy_if(others, std::back_inserter(kept),
                         [&](const Observation& seen) { return !replaced.contains(seen.key.run); });
    if (any_lives(session, kept))
      errors.push_back(still_lives(loaded.run.experiment, kept, session.given_engine()));
    return kept;
  };
  const std::vector<Observation> kept = look();
  const bool is_anothers = std::ranges::any_of(
      runs_of(kept), [&](const RunId& run) { return record.runs({.id = run}, 1).empty(); });
  if (errors.empty() && is_anothers) {
    real_clock().wait(k_second_look, session.stop());
    look();
  }
  return others;
}

}  // namespace

std::optional<Error> earlier_run_lives(Session& session, const Run& run) {
  const std::vector<Observation> others = list_others(session, run);
  if (!any_lives(session, others)) return std::nullopt;
  return still_lives(run.experiment, others, session.given_engine());
}

std::set<RunId> runs_to_replace(Session& session, const Run& run) {
  return runs_that_live(list_others(session, run));
}

std::vector<Error> make_room(Session& session, Record& record, const Loaded& loaded,
                             const std::set<RunId>& replaced) {
  interrupt_replaced(session, loaded, replaced);
  std::vector<Error> errors;
  const std::vector<Observation> others = look_again(session, record, loaded, replaced, errors);
  if (!errors.empty()) return errors;
  const Uncollected uncollected = reconcile_earlier(session, record, loaded, others);
  return remove_containers(session, loaded.run.experiment, others, replaced, uncollected);
}

}  // namespace combu
