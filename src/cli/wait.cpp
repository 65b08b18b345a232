#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

#include "cli/commands.hpp"
#include "cli/load.hpp"
#include "cli/output.hpp"
#include "cli/recorded.hpp"
#include "cli/run_lock.hpp"
#include "cli/selection.hpp"
#include "cli/take_in.hpp"
#include "combu/record.hpp"

namespace combu {
namespace {

constexpr Seconds k_wait_look{0.1};

struct WaitOptions {
  SelectionOptions selection;
  bool json = false;
};

// What is left of runs that are over tells nothing new. When nothing lives, the newest run has ended just
// now.
void leave_old_runs(std::vector<Sighting>& attempts) {
  if (attempts.empty()) return;
  std::set<RunId> awaited;
  for (const Sighting& seen : attempts)
    if (seen.phase == Phase::running) awaited.insert(seen.key.run);
  if (awaited.empty()) {
    const auto is_older = [](const Sighting& left, const Sighting& right) {
      return left.created_at < right.created_at;
    };
    awaited.insert(std::ranges::max_element(attempts, is_older)->key.run);
  }
  std::erase_if(attempts, [&](const Sighting& seen) { return !awaited.contains(seen.key.run); });
}

// One selector for each run.
std::vector<Selector> selectors_for(std::vector<Sighting> attempts, const SelectionOptions& options) {
  // Services stand until they are stopped: they are waited for only by name.
  const bool by_name = !options.trials.empty();
  const std::size_t services =
      by_name ? 0 : std::erase_if(attempts, [](const Sighting& seen) { return seen.service; });
  if (options.run.empty()) leave_old_runs(attempts);

  std::map<std::pair<std::string, RunId>, Selector> selectors;
  for (const Sighting& seen : attempts) {
    Selector& selector = selectors[{seen.experiment, seen.key.run}];
    selector.experiment = seen.experiment;
    selector.run = seen.key.run;
    if (by_name || services > 0) selector.trials.push_back(seen.key.trial);
  }
  std::vector<Selector> list;
  list.reserve(selectors.size());
  for (auto& [name, selector] : selectors) list.push_back(std::move(selector));
  return list;
}

std::string end_line(const Sighting& sighting) {
  if (sighting.phase == Phase::created) return fmt::format("{}: was not started\n", sighting.key.trial);
  if (sighting.phase == Phase::gone) return fmt::format("{}: removed\n", sighting.key.trial);
  if (!sighting.exit_code) return fmt::format("{}: ended, its exit code is not known\n", sighting.key.trial);
  return fmt::format("{}: exit code {}\n", sighting.key.trial, *sighting.exit_code);
}

void tell_end(const Sighting& sighting, const WaitOptions& options) {
  if (!options.json) {
    (void)put_out(end_line(sighting));
    return;
  }
  std::ostringstream text;
  print_sightings_json(text, {&sighting, 1});
  (void)put_out(text.str());
}

// Of a run: whether the outputs of what has ended are on their way. `failed` is set when a trial failed by
// them.
bool are_on_their_way(Record& record, const RunId& run, const std::vector<Sighting>& ended, bool& failed) {
  std::map<std::string_view, int> attempts;  // by trial
  for (const Sighting& seen : ended)
    if (seen.key.run == run) attempts.emplace(seen.key.trial, seen.key.attempt);
  bool any = false;
  TrialEntry entry;
  const auto look = [&] {
    const auto seen = attempts.find(entry.name);
    if (seen == attempts.end() || seen->second != entry.attempt) return;
    any |= entry.state == TrialState::running || entry.state == TrialState::collecting;
    failed |= entry.state == TrialState::failed && entry.cause == Cause::outputs;
  };
  record.trials(run, "", Detail::state, [&]() -> TrialEntry& {
    look();
    return entry = TrialEntry{};
  });
  look();
  return any;
}

// Whoever is at work on a run takes outputs home when what left them has ended. True when a trial failed by
// that.
bool await_outputs(Session& session, const Invocation& invocation, const std::vector<Sighting>& ended) {
  const Caller caller = caller_for(invocation);
  bool failed = false;
  if (!Record::exists(state_folder(caller))) return failed;
  Record record(state_folder(caller));
  std::set<RunId> runs;
  for (const Sighting& seen : ended) runs.insert(seen.key.run);
  for (const RunId& run : runs) {
    if (record.runs({.id = run}, 1).empty()) continue;
    while (true) {
      const bool is_at_work = process_at_work(run, caller).has_value();
      if (!are_on_their_way(record, run, ended, failed) || !is_at_work) break;
      real_clock().wait(k_wait_look, session.stop());
      if (session.stop().stop_requested()) throw Error(ErrorKind::cancelled, "wait", "interrupted");
    }
  }
  return failed;
}

int wait(Session& session, const Invocation& invocation, WaitOptions options) {
  std::vector<std::string>& trials = options.selection.trials;
  const auto is_over = [&](const std::string& trial) {
    return was_skipped(trial, invocation, options.selection);
  };
  if (std::erase_if(trials, is_over) > 0 && trials.empty()) return 0;
  const auto selectors =
      selectors_for(chosen_attempts(session, invocation, options.selection), options.selection);
  if (selectors.empty())
    session.progress().note(with_others("nothing to wait for", session, invocation, options.selection));
  const auto engine = session.patient_engine();
  const auto tell = [&](const Sighting& sighting) { tell_end(sighting, options); };
  bool failed = false;
  std::vector<Sighting> ended;
  for (const Selector& selector : selectors) {
    for (Sighting& last : await_end(*engine, selector, tell, session.stop())) {
      failed |= last.phase != Phase::ended || last.exit_code != 0;
      if (last.phase == Phase::ended) ended.push_back(std::move(last));
    }
  }
  std::map<RunId, TrialNames> runs;
  for (const Selector& selector : selectors) runs.emplace(*selector.run, TrialNames());
  take_in_all(session, invocation, runs);
  failed |= await_outputs(session, invocation, ended);
  return failed ? 1 : 0;
}

}  // namespace

void add_wait(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command =
      line.add_command("wait", "Stay until the trials are over; the exit code is 1 when one failed");
  const auto options = std::make_shared<WaitOptions>();
  command.add_option("TRIAL", options->selection.trials, "Only these; else all but the services")
      .type_name("");
  add_selection(command, options->selection);
  command.add_flag("--json", options->json, "One JSON object a line");
  command.footer("Example:\n  combu -f experiment.jsonnet wait solver-a-1 solver-a-2");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] {
      const Invocation meant = for_selection(invocation, options->selection);
      return in_session(meant, [&](Session& session) { return wait(session, meant, *options); });
    };
  });
}

}  // namespace combu
