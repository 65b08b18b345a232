#include "cli/resume.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "cli/commands.hpp"
#include "cli/only.hpp"
#include "cli/recorded.hpp"
#include "cli/run_lock.hpp"
#include "cli/session.hpp"

namespace combu {
namespace {

struct RetryOptions {
  std::string run;
  bool failed = false;
  bool wait = false;
  std::vector<std::string> trials;
};

bool has_failed(const std::vector<Past>& past) {
  return std::ranges::any_of(past, [](const Past& one) {
    return one.state == TrialState::failed || one.state == TrialState::blocked;
  });
}

// What has ended since the last process looked gets on the record; nothing is started, stopped or removed.
void take_in(Session& session, Record& record, const Loaded& loaded) {
  PlannerOptions options{.until = Until::ended};
  options.past = record.past(loaded.run.id);
  Planner planner(loaded.run.id, loaded.run.experiment, loaded.plan, options);
  const std::array<Event, 4> events{
      Begin{}, Interrupt{}, ListingBegins{},
      Listed{session.engine().list({.experiment = {}, .file = {}, .run = loaded.run.id, .trials = {}},
                                   Look::closely, session.stop())}};
  for (const Event& event : events) {
    const Step step = planner.step(event, real_clock().now());
    record.append(loaded.run.id, step.facts);
  }
}

bool is_live(TrialState state) {
  return state == TrialState::starting || state == TrialState::running;
}

// The trials that are to be tried again, and what they need of that is over: services, and what has failed.
std::vector<TrialIndex> chosen(const Loaded& loaded, const std::vector<Past>& past,
                               const RetryOptions& options) {
  const std::vector<Trial>& trials = loaded.run.experiment.trials;
  std::vector<bool> is_chosen(past.size());
  std::vector<TrialIndex> chosen;
  std::vector<TrialIndex> open;
  const auto choose = [&](TrialIndex trial) {
    if (is_chosen[trial]) return;
    is_chosen[trial] = true;
    chosen.push_back(trial);
    open.push_back(trial);
  };
  for (const std::string& wanted : options.trials) {
    for (const TrialIndex trial : trials_meant(loaded.run.experiment, wanted, "retry")) {
      if (is_live(past[trial].state))
        throw Error(ErrorKind::conflict, trials[trial].name, "runs still; stop it first");
      choose(trial);
    }
  }
  for (TrialIndex trial = 0; trial < past.size(); ++trial) {
    const bool all_failed = options.failed || options.trials.empty();
    if (all_failed && past[trial].state == TrialState::failed) choose(trial);
  }
  while (!open.empty()) {
    const TrialIndex trial = open.back();
    open.pop_back();
    for (const Edge& need : loaded.plan.nodes[trial].needs) {
      const TrialState state = past[need.trial].state;
      if (is_over(state) && (trials[need.trial].service || state != TrialState::succeeded))
        choose(need.trial);
    }
  }
  return chosen;
}

int retry(Session& session, Record& record, const Loaded& loaded, const RunEntry& entry,
          const RetryOptions& options) {
  const auto lock = take_lock(LockScope::run, session, loaded);
  take_in(session, record, loaded);
  const std::vector<Past> past = record.past(loaded.run.id);
  std::vector<TrialIndex> again = chosen(loaded, past, options);
  const std::size_t count = again.size();
  if (count == 0) {
    session.progress().note(fmt::format("run {}: nothing has failed: {}", entry.id.text(), counts_of(past)));
    return 0;
  }
  // Whether these still are follows from the others.
  for (TrialIndex trial = 0; trial < past.size(); ++trial)
    if (past[trial].state == TrialState::blocked) again.push_back(trial);
  record.reopen(loaded.run.id, again);
  session.progress().note(
      fmt::format("run {}: {} trial{} tried again", entry.id.text(), count, count == 1 ? " is" : "s are"));
  RunOptions run = run_options_of(entry.options);
  run.wait |= options.wait;
  return execute(session, record, loaded, run, Earlier::refuse,
                 Standing{.past = record.past(loaded.run.id), .began_at = entry.began_at});
}

}  // namespace

int resume_run(const Invocation& invocation, const std::string& id,
               const std::function<void(RunOptions&)>& adjust) {
  auto progress = open_progress(invocation);
  Record record = open_record(invocation);
  const RunEntry entry = find_run(record, invocation, id);
  if (entry.ended_at) {
    const std::vector<Past> past = record.past(entry.id);
    progress->note(fmt::format("run {} is over: {}", entry.id.text(), counts_of(past)));
    return has_failed(past) ? 1 : 0;
  }
  const Loaded loaded = load(record, entry.id);
  RunOptions options = run_options_of(entry.options);
  adjust(options);
  return in_session(on_its_engine(invocation, entry), std::move(progress), [&](Session& session) {
    const auto lock = take_lock(LockScope::run, session, loaded);
    const Standing standing{.past = record.past(entry.id), .began_at = entry.began_at};
    session.progress().note(
        fmt::format("going on with run {}: {}", entry.id.text(), counts_of(standing.past)));
    return execute(session, record, loaded, options, Earlier::refuse, standing);
  });
}

void add_retry(CLI::App& app, const Invocation& invocation, Action& action) {
  CLI::App* command = app.add_subcommand("retry", "Try trials of the last run again, with what they need");
  const auto options = std::make_shared<RetryOptions>();
  add_run_option(*command, options->run);
  command->add_flag("--failed", options->failed, "All that failed; without TRIALs these are meant anyway");
  command->add_flag("--wait", options->wait, "Stay until every trial is over");
  command->add_option("trials", options->trials, "Names (solver-a-*) or conditions on params (lr<0.01)")
      ->type_name("TRIALS");
  command->footer("Example:\n  combu -f experiment.jsonnet retry --failed");
  command->callback([&invocation, &action, options] {
    action = [&invocation, options] {
      Record record = open_record(invocation);
      const RunEntry entry = find_run(record, invocation, options->run);
      const Loaded loaded = load(record, entry.id);
      return in_session(on_its_engine(invocation, entry),
                        [&](Session& session) { return retry(session, record, loaded, entry, *options); });
    };
  });
}

}  // namespace combu
