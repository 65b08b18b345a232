#include "app/forget.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "app/reconcile.hpp"
#include "combu/session.hpp"
#include "combu/telemetry.hpp"
#include "combu/text.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

// Throws Error(conflict) if the run has an owner or has not ended.
void expect_over(const RunEntry& entry, const Caller& caller) {
  if (const auto process = owner_pid(entry.id, caller))
    throw Error(ErrorKind::conflict, "run " + entry.id.text(),
                fmt::format("cannot be removed: process {} owns the run; end that process first", *process));
  if (!entry.ended_at)
    throw Error(
        ErrorKind::conflict, "run " + entry.id.text(),
        fmt::format("cannot be removed: it has not ended; `combu kill --experiment {} --run {}` ends the run",
                    shell_word(entry.experiment), entry.id.text()));
}

// Reconciles the run and returns the run's updated entry in the record. If the engine is unreachable, prints
// a note.
RunEntry outputs_in(const Invocation& invocation, const OpenSession& open_session, Record& record,
                    const RunEntry& entry) {
  const std::shared_ptr<Session> session = open_session(on_its_engine(invocation, entry));
  reconcile_or_note(*session, record, entry.id);
  return record.run(entry.id);
}

void forget(Record& record, const std::vector<RunId>& runs, const Caller& caller) {
  record.remove(runs);
  std::error_code none;
  for (const RunId& run : runs)
    for (const std::string& path : {log_path(run, caller), channel_path(run, caller)})
      std::filesystem::remove(path, none);
  for (const RunId& run : runs) Telemetry::remove(state_folder(caller), run);
}

}  // namespace

std::size_t remove_runs(const Invocation& invocation, const std::vector<std::string>& ids,
                        const OpenSession& open_session) {
  Record record = open_record(invocation);
  const Caller caller = caller_for(invocation);
  std::vector<RunId> runs;
  for (const std::string& id : ids) {
    RunEntry entry = record.run(RunId(id));
    if (!entry.ended_at && !owner_pid(entry.id, caller))
      entry = outputs_in(invocation, open_session, record, entry);
    expect_over(entry, caller);
    if (std::ranges::find(runs, entry.id) == runs.end()) runs.push_back(entry.id);
  }
  forget(record, runs, caller);
  return runs.size();
}

std::size_t remove_runs_before(const Invocation& invocation, Instant before) {
  Record record = open_record(invocation);
  const std::string file = invocation.file.empty() ? "" : caller_for(invocation).file;
  std::vector<RunId> runs;
  for (const RunEntry& entry : record.runs({.file = file}, SIZE_MAX))
    if (entry.ended_at && *entry.ended_at < before) runs.push_back(entry.id);
  forget(record, runs, caller_for(invocation));
  return runs.size();
}

}  // namespace combu
