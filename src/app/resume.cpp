#include "app/resume.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "app/apply.hpp"
#include "app/changes.hpp"
#include "app/edited.hpp"
#include "app/execution.hpp"
#include "app/load.hpp"
#include "app/reconcile.hpp"
#include "app/run_telemetry.hpp"
#include "app/values.hpp"
#include "combu/session.hpp"
#include "combu/text.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

RestartRequest restart_of(const RetryOptions& options) {
  return {.again = options.trials, .failed = options.failed || options.trials.empty(), .replace = {}};
}

// Returns the experiment that the run's newest text describes. `loaded`: the result of load().
Experiment newest_text(const RunEntry& entry, const Loaded& loaded) {
  // Unless the file was edited, all trials have the newest text.
  return entry.earlier.empty() ? loaded.run.experiment
                               : read_experiment(entry.text.evaluated, loaded.caller).experiment;
}

// Applies the file on disk to the run and continues the run.
Result apply_as_it_is_now(const RunChange& change, Record& record, const RunEntry& entry,
                          const RestartRequest& restart, const AdjustOptions& adjust) {
  const Invocation now = invocation_for(entry, change.invocation);
  const auto file = load(now, entry.id, change.progress);
  if (!file) return Result::invalid;
  expect_its_experiment(*file, entry, now.file);
  const std::shared_ptr<Session> session = change.open_session(on_its_engine(change.invocation, entry));
  return apply_file(*session, record, entry, *file, restart, adjust, change.owner);
}

// Ingests the logs of attempts that ended while the run had no owner, so that equal trials can reuse them.
// Returns the attempts whose logs are stored.
std::vector<Observation> save_ended_logs(Session& session, Record& record, const Loaded& loaded) {
  try {
    std::vector<Observation> attempts =
        session.engine().list({.run = loaded.run.id}, ListDetail::basic, session.stop());
    std::erase_if(attempts, [](const Observation& seen) { return seen.phase != Phase::ended; });
    const Uncollected unsaved =
        save_logs(session, record, state_folder(loaded.caller), loaded.run.id, attempts, Containers::stay);
    note_unsaved_logs(session, unsaved);
    std::erase_if(attempts, [&](const Observation& seen) { return unsaved.contains(seen.key); });
    return attempts;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) throw;
    session.progress().note(
        fmt::format("logs and metrics of ended trials are not stored yet: {}", error.what()));
    return {};
  }
}

// The process that drove the run may have died between the end of the run and the removal of the containers
// that trials share. After the calls of this function, the engine removes them at the end of the session.
void end_shared_containers(const RunChange& change, Record& record, const RunEntry& entry,
                           const Loaded& loaded) {
  try {
    const std::shared_ptr<Session> session = change.open_session(on_its_engine(change.invocation, entry));
    expect_its_engine(*session, entry);
    (void)session->engine().check(loaded.run,
                                  session->stop());  // this process is the run's owner from now on
    std::vector<Key> stored;
    for (const Observation& seen : save_ended_logs(*session, record, loaded))
      if (seen.is_unacknowledged) stored.push_back(seen.key);
    session->engine().acknowledge(stored);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) throw;
    change.progress.note(fmt::format("containers of the run may remain: {}", error.what()));
  }
}

AdjustOptions adjusting(const RetryOptions& options) {
  return [is_wait = options.wait](RunOptions& run) { run.wait |= is_wait; };
}

Result retry(Session& session, Record& record, const RetryOptions& options, const RunEntry& begun,
             RunOwner& owner) {
  const RunId& id = begun.id;
  Loaded loaded = load(record, id);
  expect_its_engine(session, begun);
  const RunOptions run = adjusted_options(begun, adjusting(options));
  owner.begin(session, loaded, run);
  reconcile_run(session, record, id, Outlook::resumable);
  const RunEntry entry = record.run(id);
  const std::vector<RestoredTrial> restored = record.restored_trials(id);
  const Changes changes =
      compare_with_file(id, loaded.run.experiment, restored, named_until_now(entry, loaded.caller),
                        newest_text(entry, loaded), restart_of(options));
  if (!changes.errors.empty()) throw Error(changes.errors.front());
  if (changes.again.empty()) {
    session.progress().note(fmt::format("run {}: nothing has failed: {}", id.text(), counts_of(restored)));
    return Result::succeeded;
  }
  loaded.run.experiment = changes.experiment;
  override_fields(loaded.run.experiment, run);
  loaded.plan = changes.plan;
  expect_env_files(loaded.run.experiment, restored, changes.again);
  forget_files(loaded.run.experiment, restored, changes.again);
  session.progress().note(fmt::format("run {}: {} {} retried", id.text(), number_of(changes.retried, "trial"),
                                      changes.retried == 1 ? "is" : "are"));
  auto ready = prepare_run(session, loaded, run, Earlier::refuse);
  if (const auto* refused = std::get_if<Result>(&ready)) return *refused;
  const Prepared& prepared = std::get<Readiness>(ready).prepared;
  const Instant now = real_clock().now();
  const bool is_edited = !changes.updated.empty();
  record.reopen(id,
                {.facts = facts_of_edits(id, restored, {.reopened = changes.again}, now),
                 .updated = changes.updated,
                 .anew = anew_of(changes.again, restored),
                 .digests = prepared.digests,
                 .references = is_edited ? prepared.references : Digests(),
                 .at = now},
                changes.experiment);
  forgive(loaded.run.experiment, record.run(id));
  return execute({session, record, loaded, run, owner}, std::get<Readiness>(std::move(ready)),
                 ResumePoint{.trials = record.restored_trials(id), .working_since = now});
}

}  // namespace

Result retry_trials(const RunChange& change, const RetryOptions& options) {
  Record record = open_record(change.invocation);
  note_waits(record, change.progress);
  const RunEntry entry = record.run(find_run(record, change.invocation, options.run).id);
  if (options.edited)
    return apply_as_it_is_now(change, record, entry, restart_of(options), adjusting(options));
  note_edits(change.progress, record, entry, change.invocation, "retry");
  const std::shared_ptr<Session> session = change.open_session(on_its_engine(change.invocation, entry));
  return retry(*session, record, options, entry, change.owner);
}

Result resume_run(const RunChange& change, const Resumption& resumption) {
  Record record = open_record(change.invocation);
  note_waits(record, change.progress);
  const RunEntry entry = record.run(find_run(record, change.invocation, resumption.run).id);
  if (resumption.edited) return apply_as_it_is_now(change, record, entry, {}, resumption.adjust);
  note_edits(change.progress, record, entry, change.invocation, "run --resume");
  if (entry.ended_at) {
    const std::vector<RestoredTrial> restored = record.restored_trials(entry.id);
    change.progress.note(fmt::format("run {} has ended: {}", entry.id.text(), counts_of(restored)));
    const Loaded loaded = load(record, entry.id);
    if (!std::ranges::all_of(loaded.run.experiment.trials, &Trial::has_own_container))
      end_shared_containers(change, record, entry, loaded);
    const bool is_failed = any_unsuccessful(loaded.run.experiment, restored);
    return is_failed ? Result::failed : Result::succeeded;
  }
  const RunOptions options = adjusted_options(entry, resumption.adjust);
  Loaded loaded = load_newest(record, entry, options);
  const std::shared_ptr<Session> session = change.open_session(on_its_engine(change.invocation, entry));
  expect_its_engine(*session, entry);
  change.owner.begin(*session, loaded, options);
  record_parallel(record, entry.id, options.parallel);
  reconcile_run(*session, record, entry.id, Outlook::resumable);
  (void)save_ended_logs(*session, record, loaded);
  const ResumePoint resume_point = resume_point_of(record, entry, loaded);
  change.progress.note(fmt::format("resuming run {}: {}", entry.id.text(), counts_of(resume_point.trials)));
  auto ready = prepare_run(*session, loaded, options, Earlier::refuse);
  if (const auto* refused = std::get_if<Result>(&ready)) return *refused;
  return execute({*session, record, loaded, options, change.owner}, std::get<Readiness>(std::move(ready)),
                 resume_point);
}

}  // namespace combu
