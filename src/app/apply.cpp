#include "app/apply.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "app/changes.hpp"
#include "app/edited.hpp"
#include "app/execution.hpp"
#include "app/reconcile.hpp"
#include "app/values.hpp"
#include "combu/control.hpp"
#include "combu/json.hpp"
#include "combu/session.hpp"

namespace combu {
namespace {

// Maximum number of seconds for which this process tries to take over the run while another process owns or
// changes the run.
constexpr std::chrono::seconds k_hand_over_patience{30};
constexpr Seconds k_hand_over_poll{0.1};

// Returns the experiment with only its new and changed trials: these trials must still be checked against the
// engine.
Experiment only_new(const Changes& changes) {
  Experiment part = changes.experiment;
  const std::size_t known = part.trials.size() - changes.joined;
  std::unordered_set<TrialIndex> updated(changes.updated.begin(), changes.updated.end());
  updated.insert(changes.unsuccessful.begin(), changes.unsuccessful.end());
  std::vector<Trial> trials;
  for (TrialIndex trial = 0; trial < part.trials.size(); ++trial)
    if (trial >= known || updated.contains(trial)) trials.push_back(part.trials[trial]);
  part.trials = std::move(trials);
  return part;
}

bool has_all(const std::vector<Trial>& trials, const std::vector<Trial>& wanted) {
  std::unordered_map<std::string_view, const Trial*> by_name;
  for (const Trial& trial : trials) by_name.emplace(trial.name, &trial);
  return std::ranges::all_of(wanted, [&](const Trial& trial) {
    const auto found = by_name.find(trial.name);
    return found != by_name.end() && *found->second == trial;
  });
}

class Apply {
 public:
  Apply(Session& session, Record& record, RunEntry entry, const Loaded& file, const RestartRequest& restart)
      : session_(session), record_(record), entry_(std::move(entry)), file_(file), restart_(restart) {}

  // Compares the file with the run's present state.
  [[nodiscard]] Changes compare() {
    entry_ = record_.run(entry_.id);
    const Loaded before = load(record_, entry_.id);
    const std::vector<RestoredTrial> restored = record_.restored_trials(entry_.id);
    Changes changes =
        compare_with_file(entry_.id, before.run.experiment, restored, named_until_now(entry_, before.caller),
                          file_.run.experiment, restart_);
    expect_env_files(changes.experiment, restored, changes.again);
    is_parallel_edited_ = before.run.experiment.parallel_max != file_.run.experiment.parallel_max;
    return changes;
  }

  // True if the file's evaluated text equals the newest evaluated text that the record holds for the run.
  [[nodiscard]] bool is_newest() const { return file_.text.evaluated == entry_.text.evaluated; }

  // Checks the new and changed trials, and prepares their images and networks. Returns the errors.
  [[nodiscard]] std::vector<Error> make_ready(const Changes& changes) {
    if (!changes.errors.empty()) return changes.errors;
    Loaded part = file_;
    part.run.experiment = only_new(changes);
    if (part.run.experiment.trials.empty()) return {};
    return combu::make_ready(session_, part, run_options_of(entry_.options), prepared_);
  }

  // Records the new version of the file in one transaction. Stops no trial: only records which running trials
  // must stop. The process that continues the run stops these trials. Call this function while no other
  // process drives the run. Calls `may` within the transaction. If another process drives the run, `may`
  // throws Error and so cancels the transaction.
  void apply_file(const Changes& changes, const std::function<void()>& may) {
    const std::vector<RestoredTrial> restored = record_.restored_trials(entry_.id);
    const auto if_joined = changes.joined > 0 ? FileVersion::Opens::if_ended : FileVersion::Opens::no;
    FileVersion file_version{.text = file_.text,
                             .digests = prepared_.digests,
                             .references = prepared_.references,
                             .updated = changes.updated,
                             .opens = changes.again.empty() ? if_joined : FileVersion::Opens::always,
                             .anew = anew_of(changes.named, restored),
                             .at = real_clock().now()};
    if (is_newest()) file_version.text.evaluated.clear();
    TrialEdits edits;
    for (const TrialIndex trial : changes.removed) {
      if (is_alive(restored[trial].state)) {
        file_version.departure.emplace_back(trial, Departure::removed);
      } else {
        edits.removed.push_back(trial);
      }
    }
    for (const TrialIndex trial : changes.again) {
      if (is_alive(restored[trial].state)) {
        file_version.departure.emplace_back(trial, Departure::replaced);
      } else {
        edits.reopened.push_back(trial);
      }
    }
    file_version.facts = facts_of_edits(entry_.id, restored, std::move(edits), file_version.at);
    record_.apply_file(entry_.id, file_version, changes.experiment, may);
    // If `parallel` was edited in the file, discard the value that the command `set` recorded.
    if (is_parallel_edited_) record_parallel(record_, entry_.id, std::nullopt);
  }

  // Records the file's source text and imports if they differ from the record. Call this function only if the
  // evaluated text equals the newest recorded text.
  void renew() {
    const FileText& text = file_.text;
    if (text.source != entry_.text.source || text.imports != entry_.text.imports)
      record_.apply_file(
          entry_.id, {.text = {.source = text.source, .imports = text.imports, .values = text.values}}, {});
  }

 private:
  Session& session_;
  Record& record_;
  RunEntry entry_;
  const Loaded& file_;
  const RestartRequest& restart_;
  Prepared prepared_;
  bool is_parallel_edited_ = false;
};

Result refuse(Session& session, const std::vector<Error>& errors) {
  session.progress().end();
  for (const Error& error : errors) session.progress().error(error.what());
  session.progress().note("nothing was changed");
  return result_of(errors);
}

// Continues the run from its recorded state, as `run --resume` does.
Result go_on(Session& session, Record& record, const RunId& run, const AdjustOptions& adjust,
             RunOwner& owner) {
  const RunEntry entry = record.run(run);
  const RunOptions options = adjusted_options(entry, adjust);
  record_parallel(record, run, options.parallel);
  Loaded loaded = load_newest(record, entry, options);
  if (entry.ended_at) {
    const bool is_failed = any_unsuccessful(loaded.run.experiment, record.restored_trials(run));
    return is_failed ? Result::failed : Result::succeeded;
  }
  const ResumePoint resume_point = resume_point_of(record, entry, loaded);
  auto ready = prepare_run(session, loaded, options, Earlier::refuse);
  if (const auto* refused = std::get_if<Result>(&ready)) return *refused;
  return execute({session, record, loaded, options, owner}, std::get<Readiness>(std::move(ready)),
                 resume_point);
}

// Ensures that no other process drives the run. If another process owns the run, waits until that owner has
// handed over the run, and returns the connection to the owner. When the connection is destroyed, that owner
// continues the run. If no other process owns the run, makes this process its owner and returns nullptr.
std::unique_ptr<ControlClient> take_over(Session& session, const RunEntry& entry, const Loaded& file,
                                         RunOwner& owner) {
  if (owner_pid(entry.id, file.caller)) session.progress().phase("waiting for the starts in flight");
  const Instant end = real_clock().now() + k_hand_over_patience;
  while (true) {
    const bool is_others = owner_pid(entry.id, file.caller).has_value();
    try {
      if (is_others) {
        auto other = std::make_unique<ControlClient>(channel_path(entry.id, file.caller));
        other->take_over(session.stop());
        session.progress().phase("changing the run");
        return other;
      }
      owner.begin(session, file, run_options_of(entry.options));
      return nullptr;
    } catch (const Error& error) {
      // Try again: another process may be changing the run, may be becoming the run's owner, or may be
      // ending.
      const bool may_pass = is_others || error.kind() == ErrorKind::conflict;
      if (error.kind() == ErrorKind::cancelled || !may_pass || real_clock().now() >= end) throw;
    }
    real_clock().wait(k_hand_over_poll, session.stop());
  }
}

// Prints that the file has not changed.
Result print_unchanged(Session& session, const RunId& run, const RestartRequest& restart) {
  session.progress().note(fmt::format("run {}: the file has not changed{}", run.text(),
                                      restart.failed ? ", and none of its trials has failed" : ""));
  return Result::succeeded;
}

// Leaves the run to the other process that owns it. Returns `failed` if that process has died before the end
// of the run.
Result leave_to_other(Session& session, Record& record, const RunId& run, const Caller& caller) {
  const RunEntry entry = record.run(run);
  if (entry.ended_at || owner_pid(run, caller)) return Result::succeeded;
  session.progress().error(no_owner(entry, session.given_engine()).what());
  return Result::failed;
}

}  // namespace

Result apply_file(Session& session, Record& record, const RunEntry& entry, const Loaded& file,
                  const RestartRequest& restart, const AdjustOptions& adjust, RunOwner& owner) {
  expect_its_engine(session, entry);
  Apply apply(session, record, entry, file, restart);
  Changes changes = apply.compare();
  const auto is_done = [&] { return changes.none() && apply.is_newest(); };
  if (is_done()) {
    apply.renew();
    return print_unchanged(session, entry.id, restart);
  }
  if (const auto errors = apply.make_ready(changes); !errors.empty()) return refuse(session, errors);
  std::unique_ptr<ControlClient> other;
  for (bool is_ready = false; !is_ready;) {
    const std::vector<Trial> ready = only_new(changes).trials;
    other = take_over(session, entry, file, owner);
    if (!other) reconcile_run(session, record, entry.id, Outlook::resumable);
    // The run may have changed since the first comparison.
    changes = apply.compare();
    if (is_done()) return print_unchanged(session, entry.id, restart);
    is_ready = has_all(ready, only_new(changes).trials);
    if (is_ready) continue;
    // Preparing images may take long. Destroying the connection lets the owner continue the run meanwhile.
    is_ready = !std::exchange(other, nullptr);
    if (const auto errors = apply.make_ready(changes); !errors.empty()) return refuse(session, errors);
  }
  apply.apply_file(changes, [&] {
    if (!other) return;
    try {
      other->expect_the_run();
    } catch (const Error& error) {
      throw Error(error.kind(), "run " + entry.id.text(),
                  error.message() + "; nothing was changed; run the same command again");
    }
  });
  print_changes(session.progress(), entry.id, changes, restart);
  if (other) return leave_to_other(session, record, entry.id, file.caller);
  return go_on(session, record, entry.id, adjust, owner);
}

Result apply(const Invocation& invocation, const std::string& run, const RestartRequest& restart,
             Progress& progress, const OpenSession& open_session, RunOwner& owner) {
  Record record = open_record(invocation);
  note_waits(record, progress);
  const RunEntry newest = find_owned_run(record, invocation, run);
  const RunEntry entry = record.run(newest.id);
  expect_values(entry, invocation);
  Invocation meant = invocation;
  if (meant.file.empty() && !run.empty()) {
    meant.file = entry.file;
    meant.must_be_regular = true;
  }
  const auto file = load(meant, entry.id, progress);
  if (!file) return Result::invalid;
  expect_its_experiment(*file, entry, file->run.experiment.file);
  const std::shared_ptr<Session> session = open_session(on_its_engine(invocation, entry));
  return apply_file(*session, record, entry, *file, restart, {}, owner);
}

}  // namespace combu
