#include "app/start.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "app/execution.hpp"
#include "app/load.hpp"
#include "combu/session.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

// Whoever begins anew may have meant to go on with what the file's last run has left.
void tell_interrupted(Session& session, Record& record, const Loaded& loaded) {
  const RunFilter last{.experiment = loaded.run.experiment.name,
                       .file = loaded.run.experiment.file,
                       .address = session.engine_address()};
  for (const RunEntry& entry : record.runs(last, 1)) {
    if (entry.ended_at || owner_pid(entry.id, loaded.caller)) continue;
    if (any_left(record.counts(entry.id)))
      session.progress().note(fmt::format("run {} is interrupted: `{}` goes on with it; this one begins anew",
                                          entry.id.text(), resume_line(entry.id, session.given_engine())));
  }
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
    progress.note(fmt::format("{}: the folder's version is not recorded, or not all of it: {}",
                              loaded->caller.folder, problem));
  Record record(state_folder(loaded->caller));
  return open_session(invocation, [&](Session& session) {
    try {
      owner.begin(session, *loaded, wanted.options);
      tell_interrupted(session, record, *loaded);
      return execute(
          session, record, *loaded, wanted.options, wanted.replace ? Earlier::replace : Earlier::refuse,
          owner, [&](const Prepared& prepared) {
            record.begin(entry_of(session, *loaded, wanted.options, prepared), loaded->run.experiment);
            return std::nullopt;
          });
    } catch (const Error& error) {
      session.progress().end();
      if (error.kind() == ErrorKind::cancelled) session.progress().note("interrupted: nothing was started");
      throw;
    }
  });
}

}  // namespace combu
