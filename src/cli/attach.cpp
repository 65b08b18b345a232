#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "app/load.hpp"
#include "app/runs.hpp"
#include "cli/commands.hpp"
#include "cli/session.hpp"
#include "combu/control.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

constexpr Seconds k_attach_patience{5};  // with a process that is only about to listen
constexpr Seconds k_attach_look{0.05};

// With what the process at work ends; nullopt when there is none any more, or `stop` is set.
std::optional<int> follow(const RunEntry& entry, const Caller& caller, Progress& progress, Run& run,
                          const std::stop_token& stop) {
  Instant heard = real_clock().now();
  while (!stop.stop_requested() && process_at_work(entry.id, caller)) {
    try {
      ControlClient client(channel_path(entry.id, caller));
      if (const auto code = client.follow(progress, run, stop)) return code;
      heard = real_clock().now();  // cut off: too slow for what there was to tell
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::not_found || real_clock().now() - heard > k_attach_patience) throw;
    }
    real_clock().wait(k_attach_look, stop);
  }
  return std::nullopt;
}

bool is_to_be_started(const Past& past) {
  return past.state < TrialState::running || past.state == TrialState::retrying ||
         past.state == TrialState::collecting;
}

// What the record says of a run that nobody is at work on.
int tell_recorded(Record& record, const Invocation& invocation, const RunId& id, Progress& progress) {
  const RunEntry entry = record.run(id);
  const std::vector<Past> past = record.past(id);
  if (entry.ended_at) {
    progress.note(fmt::format("run {} is over: {}", id.text(), counts_of(past)));
  } else {
    progress.note(fmt::format("nobody is at work on run {}: {}; `{}` goes on with it", id.text(),
                              counts_of(past), resume_line(id, invocation.engine)));
  }
  const bool is_left = !entry.ended_at && std::ranges::any_of(past, is_to_be_started);
  return is_left || any_unsuccessful(load(record, id).run.experiment, past) ? 1 : 0;
}

int attach(const Invocation& invocation, const std::string& id) {
  Record record = open_record(invocation);
  const RunEntry entry = find_run_at_work(record, invocation, id);
  Run run;
  const auto progress = open_progress(invocation);
  const Interrupts interrupts([&] { progress->end(); });
  const auto code = follow(entry, caller_for(invocation), *progress, run, interrupts.token());
  progress->end();
  if (code) return *code;
  if (interrupts.signal() == 0) return tell_recorded(record, invocation, entry.id, *progress);
  progress->note(fmt::format("left; the run goes on: `combu attach {}` follows it again", entry.id.text()));
  return 128 + interrupts.signal();
}

}  // namespace

void add_attach(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command =
      line.add_command("attach", "Follow a run that a process is at work on; Ctrl-C only leaves it");
  const auto run = std::make_shared<std::string>();
  command.add_option("RUN", *run, "Its id; else the newest of the file's that somebody is at work on")
      .type_name("");
  command.footer("Example:\n  combu -f experiment.jsonnet attach");
  command.callback(
      [&invocation, &action, run] { action = [&invocation, run] { return attach(invocation, *run); }; });
}

}  // namespace combu
