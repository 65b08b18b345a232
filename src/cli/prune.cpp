#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "app/reconcile.hpp"
#include "app/runs.hpp"
#include "app/session.hpp"
#include "cli/commands.hpp"
#include "cli/moment.hpp"
#include "cli/output.hpp"
#include "cli/session.hpp"
#include "combu/telemetry.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

struct PruneOptions {
  std::string before = "30d";
};

std::string counted_runs(std::size_t count) {
  return fmt::format("{} run{}", count, count == 1 ? "" : "s");
}

// Nothing of a run that goes on, or was left to run, is forgotten.
void expect_over(const RunEntry& entry, const Caller& caller) {
  if (const auto process = process_at_work(entry.id, caller))
    throw Error(ErrorKind::conflict, "run " + entry.id.text(),
                fmt::format("another combu (process {}) is at work on it", *process));
  if (!entry.ended_at)
    throw Error(ErrorKind::conflict, "run " + entry.id.text(),
                fmt::format("is not over; `combu kill --experiment {} --run {}` ends it",
                            shell_word(entry.experiment), entry.id.text()));
}

// What has ended while nobody was at work on it counts. Where the engine cannot be asked, that is told.
RunEntry taken_in(const Invocation& invocation, Record& record, const RunEntry& entry) {
  (void)in_session(on_its_engine(invocation, entry), [&](Session& session) {
    take_in_all(session, record, entry.id);
    return Result::succeeded;
  });
  return record.run(entry.id);
}

void forget(Record& record, const std::vector<RunId>& runs, const Caller& caller) {
  record.remove(runs);
  std::error_code none;
  for (const RunId& run : runs)
    for (const std::string& path : {log_path(run, caller), channel_path(run, caller)})
      std::filesystem::remove(path, none);
  for (const RunId& run : runs) Telemetry::remove(state_folder(caller), run);
  (void)put_err(fmt::format("removed {} from the record\n", counted_runs(runs.size())));
}

int remove(const Invocation& invocation, const std::vector<std::string>& ids) {
  Record record = open_record(invocation);
  const Caller caller = caller_for(invocation);
  std::vector<RunId> runs;
  for (const std::string& id : ids) {
    RunEntry entry = record.run(RunId(id));
    if (!entry.ended_at && !process_at_work(entry.id, caller)) entry = taken_in(invocation, record, entry);
    expect_over(entry, caller);
    if (std::ranges::find(runs, entry.id) == runs.end()) runs.push_back(entry.id);
  }
  forget(record, runs, caller);
  return 0;
}

int prune(const Invocation& invocation, const PruneOptions& options) {
  const Instant before = moment_option("--before", options.before, real_clock().now());
  Record record = open_record(invocation);
  const std::string file = invocation.file.empty() ? "" : caller_for(invocation).file;
  std::vector<RunId> runs;
  for (const RunEntry& entry : record.runs({.file = file}, SIZE_MAX))
    if (entry.ended_at && *entry.ended_at < before) runs.push_back(entry.id);
  forget(record, runs, caller_for(invocation));
  return 0;
}

}  // namespace

void add_rm(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command("rm", "Remove runs that are over from the record");
  const auto ids = std::make_shared<std::vector<std::string>>();
  command.add_option("RUN", *ids, "The runs' ids").required().type_name("");
  command.footer("Example:\n  combu rm 3k9x0q2m7abc");
  command.callback(
      [&invocation, &action, ids] { action = [&invocation, ids] { return remove(invocation, *ids); }; });
}

void add_prune(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command("prune", "Remove all runs that were over long ago from the record");
  const auto options = std::make_shared<PruneOptions>();
  command.add_option("--before", options->before, "Those that were over then: 30d ago, or 2026-01-31")
      .type_name("TIME")
      .show_default();
  command.footer("Example:\n  combu prune --before 90d");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] { return prune(invocation, *options); };
  });
}

}  // namespace combu
