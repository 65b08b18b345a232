#include "app/run_results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "app/run_telemetry.hpp"
#include "combu/session.hpp"
#include "combu/telemetry.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

// Returns nullptr if the run has no telemetry database.
std::shared_ptr<Telemetry> telemetry_of(const std::string& folder, const RunId& run) {
  if (!Telemetry::exists(folder, run)) return nullptr;
  return std::make_shared<Telemetry>(folder, run, Telemetry::Use::reading);
}

// `id`: the run's id; empty: the last run of the invocation's file.
Results read_one(Record& record, const Invocation& invocation, const std::string& id,
                 const OpenSession& open_session) {
  const std::string folder = state_folder(caller_for(invocation));
  RunEntry entry = find_run(record, invocation, id);
  std::shared_ptr<Telemetry> telemetry = telemetry_of(folder, entry.id);
  const std::size_t begun = entry.engine.is_simulated ? 0 : record.begun(entry.id);
  if (begun > 0 && (telemetry == nullptr || telemetry->complete() < begun)) {
    refresh_from_engine(invocation, open_session, record, entry);
    telemetry = telemetry_of(folder, entry.id);
  }
  return read_results(record, std::move(telemetry), std::move(entry));
}

}  // namespace

std::vector<Results> read_run_results(const Invocation& invocation, const ChosenRuns& chosen,
                                      const OpenSession& open_session, Progress& progress) {
  Record record = open_record(invocation, Record::Use::reading);
  std::vector<Results> all;
  all.reserve(std::max<std::size_t>(chosen.ids.size(), 1));
  for (const std::string& id : chosen.ids) {
    all.push_back(read_one(record, invocation, id, open_session));
    if (std::ranges::count(chosen.ids, id) > 1)
      throw Error(ErrorKind::invalid, "run " + id, "is named twice");
  }
  if (all.empty()) all.push_back(read_one(record, invocation, "", open_session));
  for (Results& results : all) choose(results, chosen.where, progress);
  return all;
}

void refresh_from_engine(const Invocation& invocation, const OpenSession& open_session, Record& record,
                         const RunEntry& entry, const TrialNames& trials) {
  if (entry.engine.is_simulated) return;
  const Caller caller = caller_for(invocation);
  // If the run has an owner, only the owner writes the record and ingests the logs of ended attempts.
  const bool has_owner = owner_pid(entry.id, caller).has_value();
  ask_engine(open_session, invocation, entry, [&](Session& session) {
    try {
      std::vector<Observation> attempts =
          session.engine().list({.run = entry.id, .trials = trials}, ListDetail::basic, session.stop());
      if (has_owner)
        std::erase_if(attempts, [](const Observation& seen) { return seen.phase != Phase::running; });
      else if (!entry.ended_at)
        reconcile_or_note(session, record, entry.id);
      note_unsaved_logs(
          session, save_logs(session, record, state_folder(caller), entry.id, attempts, Containers::stay));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::cancelled) throw;
      session.progress().note(fmt::format("the newest logs and metrics of run {} are missing: {}",
                                          entry.id.text(), error.what()));
    }
  });
}

std::string valueless_text(const Results& results, const std::string& name) {
  const auto near = nearest_column(results, name);
  return fmt::format("--where: no trial of run {} has `{}`{}", results.run.id.text(), name,
                     near ? fmt::format("; did you mean `{}`?", *near) : "");
}

void choose(Results& results, const std::string& where, Progress& progress) {
  if (where.empty()) return;
  for (const std::string& name : choose_results(results, Filter(where)))
    progress.note(valueless_text(results, name));
}

}  // namespace combu
