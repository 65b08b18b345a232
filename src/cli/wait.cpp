#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "app/load.hpp"
#include "app/reconcile.hpp"
#include "app/runs.hpp"
#include "app/selection.hpp"
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/session.hpp"
#include "cli/trial_row.hpp"
#include "combu/record.hpp"
#include "combu/workspace.hpp"

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

// True unless the trial did its work. A service that was stopped did.
bool has_failed(const TrialEntry& entry, bool service) {
  if (has_succeeded(entry.state)) return false;
  return entry.state != TrialState::stopped || (!service && was_stopped(entry.state, entry.cause));
}

// Prints each trial once, when it is over: as the record says while a process is at work on its run, which
// may try it again and collects its outputs; else as the engine says. Prints in a thread of its own: a
// trial's outputs may take long, and others end meanwhile.
class EndPrinter {
 public:
  EndPrinter(const Caller& caller, bool json)
      : caller_(caller), json_(json), printer_([this](const std::stop_token& quit) { work(quit); }) {}

  // The attempt is over, or was never started.
  void add(const Sighting& seen) {
    const std::scoped_lock lock(mutex_);
    ended_.push_back(seen);
  }

  // Returns when all that was added has been printed, but for trials of which a further attempt lives and no
  // process is at work on their run: gives these. Throws Error.
  [[nodiscard]] std::vector<Sighting> finish(const std::stop_token& stop) {
    while (!is_done()) {
      if (stop.stop_requested()) throw Error(ErrorKind::cancelled, "wait", "interrupted");
      real_clock().wait(k_wait_look, stop);
    }
    const std::scoped_lock lock(mutex_);
    if (fault_) std::rethrow_exception(fault_);
    return std::exchange(alive_, {});
  }

  // True if a trial that was printed failed.
  [[nodiscard]] bool any_failed() {
    const std::scoped_lock lock(mutex_);
    return failed_;
  }

 private:
  [[nodiscard]] bool is_done() {
    const std::scoped_lock lock(mutex_);
    return fault_ || ended_.empty();
  }

  void work(const std::stop_token& quit) {
    try {
      if (Record::exists(state_folder(caller_))) record_.emplace(state_folder(caller_), Record::Use::reading);
      while (!quit.stop_requested()) {
        const Instant began = real_clock().now();
        look();
        // Of thousands of trials whose outputs are collected a look takes long.
        constexpr int k_share = 10;
        real_clock().wait(std::max(k_wait_look, k_share * Seconds(real_clock().now() - began)), quit);
      }
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      fault_ = std::current_exception();
    }
  }

  void look() {
    std::vector<Sighting> ended;
    {
      const std::scoped_lock lock(mutex_);
      ended = ended_;
    }
    std::map<RunId, bool> attended;
    std::vector<Sighting> later;
    for (const Sighting& seen : ended) {
      const auto [at, is_new] = attended.try_emplace(seen.key.run);
      // Asked before the record: who has left has recorded all that it saw.
      if (is_new)
        at->second = is_on_record(seen.key.run) && process_at_work(seen.key.run, caller_).has_value();
      const TrialRow row = row_of(seen, at->second);
      if (at->second && !is_over(row.entry.state)) {
        later.push_back(seen);
      } else if (is_alive(row.entry.state) && row.entry.attempt > seen.key.attempt) {
        const std::scoped_lock lock(mutex_);
        alive_.push_back(seen);
      } else {
        print(seen, row);
      }
    }
    const std::scoped_lock lock(mutex_);
    ended_.erase(ended_.begin(), ended_.begin() + static_cast<std::ptrdiff_t>(ended.size()));
    ended_.insert(ended_.begin(), later.begin(), later.end());
  }

  [[nodiscard]] bool is_on_record(const RunId& run) {
    if (!record_) return false;
    const auto [at, is_new] = on_record_.try_emplace(run);
    if (is_new) at->second = !record_->runs({.id = run}, 1).empty();
    return at->second;
  }

  [[nodiscard]] TrialRow row_of(const Sighting& seen, bool attended) {
    TrialRow row;
    row.entry.name = seen.key.trial;
    row.entry.image = seen.image;
    row.entry.attempt = seen.key.attempt;
    if (is_on_record(seen.key.run))
      for (TrialEntry& entry : record_->trials(seen.key.run, seen.key.trial)) row.entry = std::move(entry);
    if (!attended && seen.phase == Phase::gone) {
      if (!is_over(row.entry.state)) row.entry.state = TrialState::running;
      mark_missing(row.entry);
    } else {
      add_sighting(row, seen, attended);
    }
    if (!is_over(row.entry.state) && seen.phase == Phase::created && row.entry.reason.empty())
      row.entry.reason = "was not started";
    return row;
  }

  void print(const Sighting& seen, const TrialRow& row) {
    const TrialEntry& entry = row.entry;
    if (json_) {
      RunRow run;
      run.entry.id = seen.key.run;
      run.entry.experiment = seen.experiment;
      std::ostringstream text;
      print_trials_json(text, run, {&row, 1}, real_clock().now());
      (void)put_out(text.str());
    } else {
      const std::string_view reason = reason_beside(entry.state, entry.reason);
      (void)put_out(fmt::format("{}: {}{}{}\n", entry.name, to_string(entry.state),
                                reason.empty() ? "" : ": ", reason));
    }
    const std::scoped_lock lock(mutex_);
    failed_ |= has_failed(entry, seen.service);
  }

  const Caller& caller_;
  bool json_;
  std::optional<Record> record_;  // the printer's own, like the next one; what follows is of both threads
  std::map<RunId, bool> on_record_;
  std::mutex mutex_;
  std::vector<Sighting> ended_;  // and not printed
  std::vector<Sighting> alive_;  // a further attempt of their trials
  bool failed_ = false;
  std::exception_ptr fault_;
  std::jthread printer_;  // last: it uses the others
};

Result wait(Session& session, const Invocation& invocation, WaitOptions options) {
  std::vector<std::string>& trials = options.selection.trials;
  const auto is_over = [&](const std::string& trial) {
    return was_skipped(trial, invocation, options.selection);
  };
  if (std::erase_if(trials, is_over) > 0 && trials.empty()) return Result::succeeded;
  const auto selectors =
      selectors_for(chosen_attempts(session, invocation, options.selection), options.selection);
  if (selectors.empty())
    session.progress().note(with_others("nothing to wait for", session, invocation, options.selection));
  const auto engine = session.patient_engine();
  const Caller caller = caller_for(invocation);
  EndPrinter printer(caller, options.json);
  const auto await = [&](const Selector& selector) {
    (void)await_end(
        *engine, selector, [&](const Sighting& seen) { printer.add(seen); }, session.stop());
  };
  for (const Selector& selector : selectors) await(selector);
  for (std::vector<Sighting> alive; !(alive = printer.finish(session.stop())).empty();)
    for (const Sighting& seen : alive)
      await({.experiment = seen.experiment, .run = seen.key.run, .trials = {seen.key.trial}});
  std::map<RunId, TrialNames> runs;
  for (const Selector& selector : selectors) runs.emplace(*selector.run, TrialNames());
  take_in_all(session, invocation, runs);
  return printer.any_failed() ? Result::failed : Result::succeeded;
}

}  // namespace

void add_wait(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command(
      "wait", "Stay until the trials are over; the exit code is 1 when one failed or was stopped");
  const auto options = std::make_shared<WaitOptions>();
  command
      .add_option("TRIAL", options->selection.trials,
                  "Only trials of these names (solver-a-*); else all but the services")
      .type_name("");
  add_selection(command, options->selection);
  command.add_flag("--json", options->json, "One JSON object a line");
  command.footer("Example:\n  combu -f experiment.jsonnet wait solver-a-1 'solver-b-*'");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] {
      const Invocation meant = for_selection(invocation, options->selection);
      return in_session(meant, [&](Session& session) { return wait(session, meant, *options); });
    };
  });
}

}  // namespace combu
