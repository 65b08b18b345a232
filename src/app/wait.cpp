#include "app/wait.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "app/load.hpp"
#include "app/reconcile.hpp"
#include "app/trial_row.hpp"
#include "combu/record.hpp"
#include "combu/session.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

constexpr Seconds k_wait_poll{0.1};

// Erases the attempts of every run that has no running or pending attempt. If no run has one, keeps the
// attempts of the newest run, which has just ended.
void erase_ended_runs(std::vector<Observation>& attempts) {
  if (attempts.empty()) return;
  std::set<RunId> awaited;
  for (const Observation& seen : attempts)
    if (is_alive(seen)) awaited.insert(seen.key.run);
  if (awaited.empty()) {
    const auto is_older = [](const Observation& left, const Observation& right) {
      return left.created_at < right.created_at;
    };
    awaited.insert(std::ranges::max_element(attempts, is_older)->key.run);
  }
  std::erase_if(attempts, [&](const Observation& seen) { return !awaited.contains(seen.key.run); });
}

// Returns one selector for each run.
std::vector<Selector> selectors_for(std::vector<Observation> attempts, const SelectionOptions& options) {
  // Services run until they are stopped: wait() waits for a service only if it is named.
  const bool by_name = !options.trials.empty();
  const std::size_t services =
      by_name ? 0 : std::erase_if(attempts, [](const Observation& seen) { return seen.service; });
  if (options.run.empty()) erase_ended_runs(attempts);

  std::map<std::pair<std::string, RunId>, Selector> selectors;
  for (const Observation& seen : attempts) {
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

// True if `wait` counts the trial as failed. A stopped service does not count as failed.
bool has_failed(const TrialEntry& entry, bool service) {
  if (has_succeeded(entry.state)) return false;
  if (entry.state == TrialState::collecting) return entry.cause != Cause::none;
  return entry.state != TrialState::stopped || (!service && was_stopped(entry.state, entry.cause));
}

// Reports each trial once, after its end, with its recorded row. If the run has an owner, waits until the
// owner has finished with the trial: the owner may retry the trial and collects its outputs. If the run has
// no owner, reconciles the run first. An EndReporter works in its own thread, since collecting the outputs of
// one trial may take long while other trials end.
class EndReporter {
 public:
  EndReporter(Session& session, const Caller& caller, const OnEnd& on_end)
      : session_(session),
        caller_(caller),
        on_end_(on_end),
        thread_([this](const std::stop_token& quit) { work(quit); }) {}

  // Adds an attempt that has ended or was never started.
  void add(const Observation& seen) {
    const std::scoped_lock lock(mutex_);
    ended_.push_back(seen);
  }

  // Blocks until each added attempt has been reported or superseded, and returns the superseded attempts. An
  // attempt is superseded if a later attempt of its trial is alive and the run has no owner. Throws Error.
  [[nodiscard]] std::vector<Observation> finish(const std::stop_token& stop) {
    while (!is_done()) {
      if (stop.stop_requested()) throw Error(ErrorKind::cancelled, "wait", "interrupted");
      real_clock().wait(k_wait_poll, stop);
    }
    const std::scoped_lock lock(mutex_);
    if (fault_) std::rethrow_exception(fault_);
    return std::exchange(alive_, {});
  }

  // True if any reported trial failed.
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
        // The pause is at least k_share times as long as look(), which takes long if thousands of trials are
        // collecting.
        constexpr int k_share = 10;
        real_clock().wait(std::max(k_wait_poll, k_share * Seconds(real_clock().now() - began)), quit);
      }
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      fault_ = std::current_exception();
    }
  }

  // The result of one call of look() for a run.
  struct RunCheck {
    // true: another process drives the run, or changed the run while this process reconciled the run
    bool has_owner = false;
    std::optional<UnrecordedFacts> unrecorded;  // set once the run has been reconciled
  };

  void look() {
    std::vector<Observation> ended;
    {
      const std::scoped_lock lock(mutex_);
      ended = ended_;
    }
    std::map<RunId, RunCheck> runs;
    std::vector<Observation> later;
    for (const Observation& seen : ended) {
      const auto [at, is_new] = runs.try_emplace(seen.key.run);
      RunCheck& run = at->second;
      // Check for the owner before reading the record: if the owner has ended, the record already has all
      // facts of the run.
      if (is_new) run.has_owner = is_on_record(seen.key.run) && owner_pid(seen.key.run, caller_).has_value();
      const TrialRow row = run.has_owner ? row_of(seen) : reconciled_row_of(seen, run);
      if (run.has_owner && !is_over(row.entry.state)) {
        later.push_back(seen);
      } else if (is_alive(row.entry.state) && row.entry.attempt > seen.key.attempt) {
        const std::scoped_lock lock(mutex_);
        alive_.push_back(seen);
      } else {
        report(seen, row);
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

  // Returns the trial's row. Makes the row from the record or, if the run is not on record, from the
  // container.
  [[nodiscard]] TrialRow row_of(const Observation& seen) {
    TrialRow row;
    row.entry.name = seen.key.trial;
    row.entry.image = seen.image;
    row.entry.attempt = seen.key.attempt;
    if (is_on_record(seen.key.run)) {
      for (TrialEntry& entry : record_->trials(seen.key.run, seen.key.trial)) row.entry = std::move(entry);
    } else if (const auto end = end_of_unrecorded(seen)) {
      show_fact(row.entry, *end);
    }
    add_observation(row, seen);
    if (!is_over(row.entry.state) && seen.phase == Phase::created && row.entry.reason.empty())
      row.entry.reason = "was not started";
    return row;
  }

  // Returns the row of a trial whose run has no owner. Reconciles the run if the record lacks the trial's
  // end.
  [[nodiscard]] TrialRow reconciled_row_of(const Observation& seen, RunCheck& run) {
    TrialRow row = row_of(seen);
    if (is_over(row.entry.state) || !is_on_record(seen.key.run)) return row;
    if (!run.unrecorded) reconcile(seen.key.run, run);
    row = row_of(seen);
    for (const Fact& fact : (*run.unrecorded)[seen.key.trial]) show_fact(row.entry, fact);
    return row;
  }

  void reconcile(const RunId& id, RunCheck& run) {
    Reconciliation reconciliation = try_reconcile(session_, *record_, id);
    if (reconciliation.error && noted_.emplace(id, reconciliation.error->what()).second)
      note_unreconciled(session_, *reconciliation.error);
    run.has_owner = reconciliation.was_overtaken;
    run.unrecorded = std::move(reconciliation.unrecorded);
  }

  void report(const Observation& seen, const TrialRow& row) {
    on_end_(seen, row);
    const std::scoped_lock lock(mutex_);
    failed_ |= has_failed(row.entry, seen.service);
  }

  Session& session_;
  const Caller& caller_;
  const OnEnd& on_end_;
  // Only the thread thread_ uses these members:
  std::optional<Record> record_;
  std::map<RunId, bool> on_record_;
  // errors that have been printed; each error is printed once for each run
  std::set<std::pair<RunId, std::string>> noted_;
  // Both threads use these members, and lock mutex_ first:
  std::mutex mutex_;
  std::vector<Observation> ended_;  // ended attempts that have not been reported
  std::vector<Observation> alive_;  // superseded attempts, see finish()
  bool failed_ = false;
  std::exception_ptr fault_;
  std::jthread thread_;  // declared last, since the thread uses the other members
};

}  // namespace

Result wait(Session& session, const Invocation& invocation, SelectionOptions selection, const OnEnd& on_end) {
  std::vector<std::string>& trials = selection.trials;
  const auto is_over = [&](const std::string& trial) { return was_skipped(trial, invocation, selection); };
  if (std::erase_if(trials, is_over) > 0 && trials.empty()) return Result::succeeded;
  const auto selectors = selectors_for(chosen_attempts(session, invocation, selection), selection);
  if (selectors.empty())
    session.progress().note(with_others("nothing to wait for", session, invocation, selection));
  const auto engine = session.patient_engine();
  const Caller caller = caller_for(invocation);
  EndReporter reporter(session, caller, on_end);
  const auto await = [&](const Selector& selector) {
    (void)await_end(
        *engine, selector, [&](const Observation& seen) { reporter.add(seen); }, session.stop());
  };
  for (const Selector& selector : selectors) await(selector);
  for (std::vector<Observation> alive; !(alive = reporter.finish(session.stop())).empty();)
    for (const Observation& seen : alive)
      await({.experiment = seen.experiment, .run = seen.key.run, .trials = {seen.key.trial}});
  return reporter.any_failed() ? Result::failed : Result::succeeded;
}

}  // namespace combu
