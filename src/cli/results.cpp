#include "cli/results.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "combu/inputs.hpp"
#include "combu/run.hpp"
#include "combu/schedule.hpp"

namespace combu {
namespace {

bool is_collecting(const Past& past) {
  return past.state == TrialState::collecting;
}

}  // namespace

std::string results_folder(const Run& run) {
  return results_folder(run.experiment, run.id);
}

std::unique_ptr<Depot> open_results(const Loaded& loaded) {
  std::string results = results_folder(loaded.run);
  if (!results.starts_with('/')) return open_s3(results, loaded.caller);
  const bool for_another = geteuid() == 0 && loaded.caller.uid != 0;
  return open_folder(results, for_another
                                  ? std::optional(Owner{.uid = loaded.caller.uid, .gid = loaded.caller.gid})
                                  : std::nullopt);
}

OutputsAt outputs_at(const std::string& results, const TrialEntry& trial) {
  OutputsAt at{.place = fmt::format("{}/{}", results, trial.name),
               .so_far = fmt::format("{}/{}", results, place_so_far(trial.name))};
  const bool is_folder = results.starts_with('/');
  const auto is_there = [](const std::string& place) {
    std::error_code unreadable;
    return std::filesystem::exists(fmt::format("{}/{}", place, k_manifest_name), unreadable);
  };
  const bool is_home = is_folder ? is_there(at.place) : has_succeeded(trial.state) || trial.taken;
  // Of one that goes on it is an earlier attempt's.
  if (!is_over(trial.state) || !is_home) at.place.clear();
  if (!is_folder || !is_there(at.so_far)) at.so_far.clear();
  return at;
}

std::vector<Error> check_results(const Loaded& loaded, const std::stop_token& stop) {
  const Experiment& experiment = loaded.run.experiment;
  const bool any_outputs =
      std::ranges::any_of(experiment.trials, [](const Trial& trial) { return !trial.outputs.empty(); });
  if (!any_outputs || experiment.collect.to.starts_with('/')) return {};
  try {
    check_s3(results_folder(loaded.run), loaded.caller, stop);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) throw;
    return {Error(error.kind(), "collect.to", error.what())};
  }
  return {};
}

void bring_home(Session& session, Record& record, const RunId& run) {
  PlannerOptions options{.until = Until::ended};
  options.past = record.past(run);
  const auto count = static_cast<std::size_t>(std::ranges::count_if(options.past, is_collecting));
  if (count == 0) return;
  session.progress().note(fmt::format("taking home the outputs of {} trial{} of run {}", count,
                                      count == 1 ? "" : "s", run.text()));
  const Loaded loaded = load(record, run);
  const std::vector<Trial>& trials = loaded.run.experiment.trials;
  const auto depot = open_results(loaded);
  const auto engine = session.patient_engine();
  Planner planner(run, loaded.run.experiment, loaded.plan, options);
  const auto step = [&](const Event& event) { return planner.step(event, real_clock().now()); };
  (void)step(Adjust{.paused = true});
  (void)step(Interrupt{.for_good = true});
  for (const Command& command : step(Begin{}).commands) {
    const auto* collect = std::get_if<CollectCommand>(&command);
    if (collect == nullptr) continue;
    const auto [collected, taken] = take_outputs(*engine, loaded.run, *collect, *depot, session.stop());
    if (!collected.fault.empty() && !collected.by_attempt)
      throw Error(ErrorKind::refused, trials[collect->trial].name,
                  fmt::format("its outputs cannot be taken home: {}", collected.fault));
    std::vector<Fact> facts = step(collected).facts;
    std::erase_if(facts, [&](const Fact& fact) { return !is_over(fact.state); });
    std::vector<CameHome> homes;
    if (taken) {
      homes.push_back({.trial = collect->trial, .attempt = collect->attempt, .taken = *taken});
      const std::string left = words_of_left(trials[collect->trial].name, *taken);
      if (!left.empty()) session.progress().note(left);
    }
    record.append(run, facts, {}, homes);
  }
}

}  // namespace combu
