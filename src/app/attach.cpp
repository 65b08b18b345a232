#include "app/attach.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "app/load.hpp"
#include "combu/control.hpp"
#include "combu/session.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

constexpr Seconds k_attach_patience{5};  // maximum duration of the wait until the owner opens its channel
constexpr Seconds k_attach_poll{0.05};

// Follows the run. Returns the owner's exit code; nullopt if the run has no owner, or if `stop` requests a
// stop.
std::optional<int> follow(const RunEntry& entry, const Caller& caller, Progress& progress, Run& run,
                          const std::stop_token& stop) {
  Instant heard = real_clock().now();
  while (!stop.stop_requested() && owner_pid(entry.id, caller)) {
    try {
      ControlClient client(channel_path(entry.id, caller));
      if (const auto code = client.follow(progress, run, stop)) return code;
      // Connect again: the owner disconnected this client, which read too slowly.
      heard = real_clock().now();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::not_found || real_clock().now() - heard > k_attach_patience) throw;
    }
    real_clock().wait(k_attach_poll, stop);
  }
  return std::nullopt;
}

bool is_to_be_started(const RestoredTrial& restored) {
  return restored.state < TrialState::running || restored.state == TrialState::retrying ||
         restored.state == TrialState::collecting;
}

Result show_recorded(Record& record, const Invocation& invocation, const RunId& id, Progress& progress) {
  const RunEntry entry = record.run(id);
  const std::vector<RestoredTrial> restored = record.restored_trials(id);
  if (entry.ended_at) {
    progress.note(fmt::format("run {} has ended: {}", id.text(), counts_of(restored)));
  } else {
    progress.note(fmt::format("no process owns run {}: {}; `{}` resumes it", id.text(), counts_of(restored),
                              resume_line(id, invocation.engine)));
  }
  const bool is_left = !entry.ended_at && std::ranges::any_of(restored, is_to_be_started);
  return is_left || any_unsuccessful(load(record, id).run.experiment, restored) ? Result::failed
                                                                                : Result::succeeded;
}

}  // namespace

Attached attach(const Invocation& invocation, const std::string& run, Progress& progress,
                const std::stop_token& stop) {
  Record record = open_record(invocation, Record::Use::reading);
  const RunEntry entry = find_owned_run(record, invocation, run);
  Run shown;
  const auto code = follow(entry, caller_for(invocation), progress, shown, stop);
  progress.end();
  if (code) return {.result = Result::succeeded, .owner_exit_code = code};
  if (!stop.stop_requested())
    return {.result = show_recorded(record, invocation, entry.id, progress), .owner_exit_code = std::nullopt};
  progress.note(
      fmt::format("detached; the run continues: `combu attach {}` follows the run again", entry.id.text()));
  return {.result = Result::interrupted, .owner_exit_code = std::nullopt};
}

}  // namespace combu
