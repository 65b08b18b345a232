#include "app/preparation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <mutex>
#include <utility>

#include "app/earlier_runs.hpp"
#include "app/outputs.hpp"
#include "app/secrets.hpp"
#include "combu/inputs.hpp"
#include "combu/jsonnet.hpp"
#include "combu/text.hpp"

namespace combu {
namespace {

// Returns all errors that the run would cause on the engine, in the run's host paths, in its secrets or in
// its results bucket. Changes nothing but Run::secrets.
std::vector<Error> look_ahead(Session& session, const Facts& facts, Loaded& loaded,
                              const std::optional<Capacity>& capacity, const RunOptions& options) {
  session.progress().phase("checking");
  std::vector<Error> errors = read_secrets(session, loaded);
  std::ranges::move(session.engine().check(loaded.run, session.stop()), std::back_inserter(errors));
  if (capacity)
    std::ranges::move(check_slots(loaded.run.experiment, capacity->slots, capacity->gpus, until_of(options)),
                      std::back_inserter(errors));
  const EngineHost host = facts.is_remote ? EngineHost::another : EngineHost::this_machine;
  std::ranges::move(check_host_paths(loaded.run.experiment, host), std::back_inserter(errors));
  std::ranges::move(check_results(loaded, session.stop()), std::back_inserter(errors));
  return errors;
}

// Prepares images and networks, then creates the missing folders of volumes.
std::vector<Error> prepare(Session& session, const Loaded& loaded, Prepared& prepared) {
  session.progress().phase("preparing images and networks");
  const auto began = std::chrono::steady_clock::now();
  std::mutex mutex;
  const auto on_progress = [&](const Preparation& preparation) {
    if (preparation.kind == Preparation::Kind::note) return session.progress().note(preparation.name);
    if (preparation.kind != Preparation::Kind::found) return session.progress().preparation(preparation);
    const std::scoped_lock lock(mutex);
    const std::pair image(preparation.name, preparation.platform);
    prepared.digests[image] = digest_in(preparation.digest);
    prepared.references[image] = preparation.digest;
  };
  std::vector<Error> errors = session.engine().prepare(loaded.run, on_progress, session.stop());
  if (!errors.empty()) return errors;
  HostFolders folders = make_host_folders(loaded.run.experiment, loaded.caller);
  for (const std::string& folder : folders.made)
    session.progress().note(fmt::format("created the folder {}", folder));
  prepared.took = std::chrono::steady_clock::now() - began;
  return std::move(folders.errors);
}

}  // namespace

std::vector<Error> make_ready(Session& session, Loaded& loaded, const RunOptions& options,
                              Prepared& prepared) {
  const Facts facts = session.engine().facts(session.stop());
  std::vector<Error> errors = look_ahead(
      session, facts, loaded, capacity_for(session, facts, loaded.run.experiment, options), options);
  return errors.empty() ? prepare(session, loaded, prepared) : errors;
}

Result refuse_start(Session& session, const std::vector<Error>& errors) {
  session.progress().end();
  for (const Error& error : errors) session.progress().error(error.what());
  session.progress().note("nothing was started");
  return result_of(errors);
}

std::variant<Readiness, Result> prepare_run(Session& session, Loaded& loaded, const RunOptions& options,
                                            Earlier earlier) {
  Readiness ready{.starts = acquire_lock(LockScope::starts, session, loaded),
                  .facts = session.engine().facts(session.stop())};
  if (ready.facts.places_attempts) session.progress().note("trials run on " + ready.facts.engine);
  ready.capacity = capacity_for(session, ready.facts, loaded.run.experiment, options);
  std::vector<Error> errors;
  if (earlier == Earlier::replace) {
    ready.replaced = runs_to_replace(session, loaded.run);
  } else if (auto error = earlier_run_lives(session, loaded.run)) {
    errors.push_back(*std::move(error));
  }
  if (errors.empty()) errors = look_ahead(session, ready.facts, loaded, ready.capacity, options);
  if (errors.empty()) errors = prepare(session, loaded, ready.prepared);
  if (!errors.empty()) return refuse_start(session, errors);
  return ready;
}

}  // namespace combu
