#include "cli/resume.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "cli/again.hpp"
#include "cli/commands.hpp"
#include "cli/kept_logs.hpp"
#include "cli/only.hpp"
#include "cli/recorded.hpp"
#include "cli/run_lock.hpp"
#include "cli/session.hpp"
#include "cli/take_in.hpp"

namespace combu {
namespace {

struct RetryOptions {
  std::string run;
  bool failed = false;
  bool wait = false;
  bool detach = false;
  std::vector<std::string> trials;
};

std::vector<TrialIndex> choose(const Loaded& loaded, const std::vector<Past>& past,
                               const RetryOptions& options, std::size_t& count) {
  Again again(loaded.run.experiment, loaded.plan, past);
  for (const std::string& wanted : options.trials) {
    for (const TrialIndex trial : trials_meant(loaded.run.experiment, loaded.run.id, wanted, "retry")) {
      if (past[trial].state == TrialState::collecting)
        throw Error(ErrorKind::conflict, loaded.run.experiment.trials[trial].name,
                    "has ended, and its outputs are not home yet: `run --resume` takes them");
      if (is_alive(past[trial].state))
        throw Error(ErrorKind::conflict, loaded.run.experiment.trials[trial].name,
                    "runs still; stop it first");
      again.add(trial, Needs::all);
    }
  }
  const bool all_failed = options.failed || options.trials.empty();
  for (TrialIndex trial = 0; all_failed && trial < past.size(); ++trial)
    if (past[trial].state == TrialState::failed) again.add(trial, Needs::all);
  count = again.trials().size();
  // And what is blocked because nothing started any more.
  for (TrialIndex trial = 0; all_failed && trial < past.size(); ++trial)
    if (past[trial].state == TrialState::blocked && !past[trial].root) again.add(trial, Needs::services);
  again.add_blocked();
  return again.trials();
}

// What they have written whose end nobody was there to see: whoever is equal is to have it, too.
void keep_ended_logs(Session& session, Record& record, const Loaded& loaded) {
  try {
    std::vector<Sighting> attempts =
        session.engine().list({.run = loaded.run.id}, Look::once, session.stop());
    std::erase_if(attempts, [](const Sighting& seen) { return seen.phase != Phase::ended; });
    keep_logs(session, record, state_folder(loaded.caller), loaded.run.id, attempts, Containers::stay);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) throw;
    session.progress().note(
        fmt::format("what trials have written that have ended is not kept yet: {}", error.what()));
  }
}

int retry(Session& session, Record& record, Loaded loaded, const RunEntry& entry, const RetryOptions& options,
          AtWork& work) {
  expect_its_engine(session, entry);
  RunOptions run = run_options_of(entry.options);
  run.wait |= options.wait;
  work.begin(session, loaded, run);
  take_in(session, record, entry.id, Intake::all);
  const std::vector<Past> past = record.past(loaded.run.id);
  std::size_t count = 0;
  const std::vector<TrialIndex> again = choose(loaded, past, options, count);
  if (again.empty()) {
    session.progress().note(fmt::format("run {}: nothing has failed: {}", entry.id.text(), counts_of(past)));
    return 0;
  }
  expect_env_files(loaded.run.experiment, past, again);
  forget_inputs(loaded.run.experiment, past, again);
  session.progress().note(
      fmt::format("run {}: {} trial{} tried again", entry.id.text(), count, count == 1 ? " is" : "s are"));
  return execute(session, record, loaded, run, Earlier::refuse, work, [&](const Prepared& /*prepared*/) {
    const Instant now = real_clock().now();
    record.reopen(loaded.run.id, again, now);
    forgive(loaded.run.experiment, record.run(loaded.run.id));
    return std::optional(Standing{.past = record.past(loaded.run.id), .working_since = now});
  });
}

int retry(const Invocation& invocation, const RetryOptions& options, const Background* background) {
  AtWork work(background);
  Record record = open_record(invocation);
  const RunEntry entry = find_run(record, invocation, options.run);
  const Loaded loaded = load(record, entry.id);
  return work.done(
      in_session(on_its_engine(invocation, entry), work.share(open_progress(invocation)),
                 [&](Session& session) { return retry(session, record, loaded, entry, options, work); }));
}

}  // namespace

int resume_run(const Invocation& invocation, const std::string& id,
               const std::function<void(RunOptions&)>& adjust, const Background* background) {
  AtWork work(background);
  auto progress = work.share(open_progress(invocation));
  Record record = open_record(invocation);
  const RunEntry entry = find_run(record, invocation, id);
  if (entry.ended_at) {
    const std::vector<Past> past = record.past(entry.id);
    progress->note(fmt::format("run {} is over: {}", entry.id.text(), counts_of(past)));
    return any_failed(past) ? 1 : 0;
  }
  Loaded loaded = load(record, entry.id);
  forgive(loaded.run.experiment, entry);
  RunOptions options = run_options_of(entry.options);
  adjust(options);
  return work.done(in_session(on_its_engine(invocation, entry), std::move(progress), [&](Session& session) {
    expect_its_engine(session, entry);
    work.begin(session, loaded, options);
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
  command.add_flag("--failed", options->failed, "All that failed; without TRIALs these are meant anyway");
  command.add_flag("--wait", options->wait, "Stay until every trial is over");
  add_detach_option(command, options->detach);
  command
      .add_option("TRIAL", options->trials,
                  "Names (solver-a-*) or conditions on params (lr<0.01); none: all that failed")
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
