#include "cli/resume.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "cli/apply.hpp"
#include "cli/changes.hpp"
#include "cli/commands.hpp"
#include "cli/edited.hpp"
#include "cli/kept_logs.hpp"
#include "cli/load.hpp"
#include "cli/recorded.hpp"
#include "cli/run_lock.hpp"
#include "cli/session.hpp"
#include "cli/take_in.hpp"

namespace combu {
namespace {

struct RetryOptions {
  std::string run;
  bool failed = false;
  bool edited = false;
  bool wait = false;
  bool detach = false;
  std::vector<std::string> trials;
};

Wishes wishes_of(const RetryOptions& options) {
  return {.again = options.trials, .failed = options.failed || options.trials.empty(), .replace = {}};
}

// The trials of the run's newest text. `loaded`: the run as load() gives it.
Experiment newest_text(const RunEntry& entry, const Loaded& loaded) {
  // Unless the file was edited, all trials are of that text.
  return entry.earlier.empty() ? loaded.run.experiment
                               : read_experiment(entry.evaluated, loaded.caller).experiment;
}

// The run goes on with its file as it is now.
int apply_as_it_is_now(const Invocation& invocation, std::unique_ptr<Progress> progress, Record& record,
                       const RunEntry& entry, const Wishes& wishes, const AdjustOptions& adjust,
                       AtWork& work) {
  const Invocation now = invocation_for(entry, invocation);
  const auto file = load(now, entry.id, *progress);
  if (!file) return 2;
  expect_its_experiment(*file, entry, now.file);
  return work.done(in_session(on_its_engine(invocation, entry), std::move(progress), [&](Session& session) {
    return apply_file(session, record, entry, *file, wishes, adjust, work);
  }));
}

// What they have written whose end nobody was there to see: whoever is equal is to have it, too.
void keep_ended_logs(Session& session, Record& record, const Loaded& loaded) {
  try {
    std::vector<Sighting> attempts =
        session.engine().list({.run = loaded.run.id}, Look::once, session.stop());
    std::erase_if(attempts, [](const Sighting& seen) { return seen.phase != Phase::ended; });
    note_unkept_logs(session, keep_logs(session, record, state_folder(loaded.caller), loaded.run.id, attempts,
                                        Containers::stay));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) throw;
    session.progress().note(
        fmt::format("what trials have written that have ended is not kept yet: {}", error.what()));
  }
}

AdjustOptions adjusting(const RetryOptions& options) {
  return [is_wait = options.wait](RunOptions& run) { run.wait |= is_wait; };
}

int retry(Session& session, Record& record, const RetryOptions& options, const RunEntry& begun,
          AtWork& work) {
  const RunId& id = begun.id;
  Loaded loaded = load(record, id);
  expect_its_engine(session, begun);
  const RunOptions run = adjusted_options(begun, adjusting(options));
  work.begin(session, loaded, run);
  take_in(session, record, id, Intake::all);
  const RunEntry entry = record.run(id);
  const std::vector<Past> past = record.past(id);
  const Changes changes =
      compare_with_file(id, loaded.run.experiment, past, named_until_now(entry, loaded.caller),
                        newest_text(entry, loaded), wishes_of(options));
  if (!changes.errors.empty()) throw Error(changes.errors.front());
  if (changes.again.empty()) {
    session.progress().note(fmt::format("run {}: nothing has failed: {}", id.text(), counts_of(past)));
    return 0;
  }
  loaded.run.experiment = changes.experiment;
  override_fields(loaded.run.experiment, run);
  loaded.plan = changes.plan;
  expect_env_files(loaded.run.experiment, past, changes.again);
  forget_inputs(loaded.run.experiment, past, changes.again);
  session.progress().note(fmt::format("run {}: {} trial{} tried again", id.text(), changes.tried_again,
                                      changes.tried_again == 1 ? " is" : "s are"));
  return execute(session, record, loaded, run, Earlier::refuse, work, [&](const Prepared& prepared) {
    const Instant now = real_clock().now();
    const bool is_edited = !changes.taken.empty();
    record.reopen(id,
                  {.trials = changes.again,
                   .taken = changes.taken,
                   .digests = prepared.digests,
                   .references = is_edited ? prepared.references : Digests(),
                   .at = now},
                  changes.experiment);
    forgive(loaded.run.experiment, record.run(id));
    return std::optional(Standing{.past = record.past(id), .working_since = now});
  });
}

int retry(const Invocation& invocation, const RetryOptions& options, const Background* background) {
  AtWork work(background);
  auto progress = work.share(open_progress(invocation));
  Record record = open_record(invocation);
  const RunEntry entry = record.run(find_run(record, invocation, options.run).id);
  if (options.edited)
    return apply_as_it_is_now(invocation, std::move(progress), record, entry, wishes_of(options),
                              adjusting(options), work);
  note_edits(*progress, record, entry, invocation, "retry");
  return work.done(in_session(on_its_engine(invocation, entry), std::move(progress), [&](Session& session) {
    return retry(session, record, options, entry, work);
  }));
}

}  // namespace

int resume_run(const Invocation& invocation, const Resumption& resumption, const Background* background) {
  AtWork work(background);
  auto progress = work.share(open_progress(invocation));
  Record record = open_record(invocation);
  const RunEntry entry = record.run(find_run(record, invocation, resumption.run).id);
  if (resumption.edited)
    return apply_as_it_is_now(invocation, std::move(progress), record, entry, {}, resumption.adjust, work);
  note_edits(*progress, record, entry, invocation, "run --resume");
  if (entry.ended_at) {
    const std::vector<Past> past = record.past(entry.id);
    progress->note(fmt::format("run {} is over: {}", entry.id.text(), counts_of(past)));
    return any_unsuccessful(load(record, entry.id).run.experiment, past) ? 1 : 0;
  }
  const RunOptions options = adjusted_options(entry, resumption.adjust);
  Loaded loaded = load(record, entry.id, Texts::newest);
  forgive(loaded.run.experiment, entry);
  override_fields(loaded.run.experiment, options);
  return work.done(in_session(on_its_engine(invocation, entry), std::move(progress), [&](Session& session) {
    expect_its_engine(session, entry);
    work.begin(session, loaded, options);
    keep_parallel(record, entry.id, options.parallel);
    take_in(session, record, entry.id, Intake::all);
    keep_ended_logs(session, record, loaded);
    const Standing standing{.past = record.past(entry.id), .working_since = entry.working_since};
    expect_env_files(loaded.run.experiment, standing.past);
    forget_inputs(loaded.run.experiment, standing.past);
    session.progress().note(
        fmt::format("going on with run {}: {}", entry.id.text(), counts_of(standing.past)));
    return execute(session, record, loaded, options, Earlier::refuse, work,
                   [&](const Prepared& /*prepared*/) { return std::optional(standing); });
  }));
}

void add_retry(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command("retry", "Try trials of the last run again, with what they need");
  const auto options = std::make_shared<RetryOptions>();
  add_run_option(command, options->run);
  command.add_flag("--failed", options->failed,
                   "All that failed or were stopped; without TRIALs these are meant anyway");
  command.add_flag("--edited", options->edited, "Use the file as it is now, as `apply` does");
  command.add_flag("--wait", options->wait, "Stay until every trial is over");
  add_detach_option(command, options->detach);
  command
      .add_option(
          "TRIAL", options->trials,
          "Names (solver-a-*) or conditions on params (lr<0.01); none: all that failed or were stopped")
      .type_name("");
  command.footer("Example:\n  combu -f experiment.jsonnet retry --failed");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] {
      const auto body = [&](const Background* background) { return retry(invocation, *options, background); };
      return options->detach ? in_background(body) : body(nullptr);
    };
  });
}

}  // namespace combu
