#include "app/start.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "app/execution.hpp"
#include "app/load.hpp"
#include "app/preparation.hpp"
#include "combu/inputs.hpp"
#include "combu/json.hpp"
#include "combu/jsonnet.hpp"
#include "combu/session.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

// Prints a note if the file's last run is interrupted: the user may have meant to resume that run.
void note_interrupted(Session& session, Record& record, const Loaded& loaded) {
  const RunFilter last{.experiment = loaded.run.experiment.name,
                       .file = loaded.run.experiment.file,
                       .address = session.engine_address()};
  for (const RunEntry& entry : record.runs(last, 1)) {
    if (entry.ended_at || owner_pid(entry.id, loaded.caller)) continue;
    if (any_left(record.counts(entry.id)))
      session.progress().note(
          fmt::format("run {} is interrupted: `{}` resumes that run; this command starts a new run",
                      entry.id.text(), resume_line(entry.id, session.given_engine())));
  }
}

// Returns the entry of the run for the record. Moves the texts out of `loaded`, since their size grows with
// the experiment.
RunEntry entry_of(const Session& session, Loaded& loaded, const RunOptions& options, const Readiness& ready) {
  return {.id = loaded.run.id,
          .experiment = loaded.run.experiment.name,
          .file = loaded.run.experiment.file,
          .folder = loaded.caller.folder,
          .text = std::move(loaded.text),
          .arguments = json_text(nlohmann::json(loaded.arguments)),
          .options = to_json(options),
          .revision = loaded.revision.commit,
          .revision_dirty = loaded.revision.dirty,
          .working_tree = std::move(loaded.revision.working_tree),
          .engine = {.address = session.engine_address(),
                     .description = ready.facts.engine,
                     .is_simulated = ready.facts.is_simulated},
          .user = user_name(),
          .machine = machine_name(),
          .program = fmt::format("combu {} ({})", COMBU_VERSION, evaluator()),
          .evaluated_in = loaded.evaluated_in,
          .prepared_in = ready.prepared.took,
          .digests = ready.prepared.digests,
          .references = ready.prepared.references,
          .results = results_folder(loaded.run.experiment, loaded.run.id),
          .began_at = real_clock().now(),
          .ended_at = std::nullopt};
}

}  // namespace

Result start_run(const Invocation& invocation, const NewRun& wanted, Progress& progress,
                 const OpenSession& open_session, RunOwner& owner) {
  const RunId id = wanted.id.empty() ? RunId::random() : RunId(wanted.id);
  auto loaded = load(invocation, id, progress);
  if (!loaded) return Result::invalid;
  if (!wanted.only.empty()) {
    loaded->run.experiment = only(std::move(loaded->run.experiment), id, loaded->plan, wanted.only);
    loaded->plan = make_plan(loaded->run.experiment).plan;
  }
  override_fields(loaded->run.experiment, wanted.options);
  loaded->revision = revision_of(loaded->caller.folder, loaded->text.evaluated);
  if (const std::string& problem = loaded->revision.working_tree.problem; !problem.empty())
    progress.note(fmt::format("{}: the folder's version is not recorded, or only in part: {}",
                              loaded->caller.folder, problem));
  Record record(state_folder(loaded->caller));
  note_waits(record, progress);
  const std::shared_ptr<Session> session = open_session(invocation);
  try {
    owner.begin(*session, *loaded, wanted.options);
    note_interrupted(*session, record, *loaded);
    auto ready =
        prepare_run(*session, *loaded, wanted.options, wanted.replace ? Earlier::replace : Earlier::refuse);
    if (const auto* refused = std::get_if<Result>(&ready)) return *refused;
    auto& readiness = std::get<Readiness>(ready);
    record.begin(entry_of(*session, *loaded, wanted.options, readiness), loaded->run.experiment);
    return execute({*session, record, *loaded, wanted.options, owner}, std::move(readiness), std::nullopt);
  } catch (const Error& error) {
    progress.end();
    if (error.kind() == ErrorKind::cancelled) progress.note("interrupted: nothing was started");
    throw;
  }
}

}  // namespace combu
