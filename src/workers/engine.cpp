// The engine that runs attempts in workers: maps each function of Engine to workers and to the engine below.

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "combu/workers.hpp"
#include "workers/fleet.hpp"

namespace combu {
namespace workers {
namespace {

class WorkersEngine final : public Engine {
 public:
  WorkersEngine(Engine& engine, AgentPrograms programs)
      : engine_(engine), images_(std::move(programs)), fleet_(engine, images_) {}

  Facts facts(std::stop_token stop) override { return engine_.facts(stop); }
  std::vector<Finding> diagnose(std::stop_token stop) override { return engine_.diagnose(stop); }
  std::vector<Gpu> gpus(std::stop_token stop) override { return engine_.gpus(stop); }
  std::vector<Error> check(const Run& run, std::stop_token stop) override;
  bool copies_files() const override { return engine_.copies_files(); }
  bool gives_secrets() const override { return engine_.gives_secrets(); }
  std::vector<StartLimit> limits(const Run& run, const Slots& capacity) override {
    return limits_of(run.experiment, capacity);
  }
  std::vector<Error> prepare(const Run& run, const std::function<void(const Preparation&)>& on_progress,
                             std::stop_token stop) override;
  StartResult start(const Run& run, const Trial& trial, int attempt, std::stop_token stop) override;
  void stop(const Key& key, std::optional<Seconds> grace, std::stop_token stop) override;
  std::vector<Observation> list(const Selector& selector, ListDetail detail, std::stop_token stop) override;
  void watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
             std::stop_token stop) override;
  std::optional<Usage> usage(const std::string& id, std::stop_token stop) override;
  void logs(const Key& key, const LogOptions& options, const OnLogPiece& on_piece,
            std::stop_token stop) override;
  bool copy_out(const Key& key, const std::string& path,
                const std::function<void(std::string_view)>& on_bytes, std::stop_token stop) override;
  std::unique_ptr<ByteStream> exec(const Key& key, const std::vector<std::string>& argv,
                                   std::stop_token stop) override {
    return engine_.exec(key, argv, stop);
  }
  void acknowledge(const std::vector<Key>& keys) override {
    fleet_.acknowledge(keys);
    engine_.acknowledge(keys);
  }
  Released release(const Selector& selector, const ReleaseCallbacks& callbacks,
                   std::stop_token stop) override;

 private:
  // The containers that the engine below lists: workers whose attempts are listed instead, and all others.
  struct Listing {
    std::vector<Observation> workers;
    std::vector<Observation> others;
  };
  Listing list_containers(const Selector& selector, ListDetail detail, const std::stop_token& stop);
  [[nodiscard]] bool stands_for_attempts(const Selector& selector, const Observation& container);
  std::vector<Observation> selected_attempts(const Selector& selector);
  Released release_with_workers(const Selector& selector, const std::vector<Observation>& workers,
                                const std::vector<Observation>& attempts, const std::set<Key>& kept,
                                const ReleaseCallbacks& callbacks, const std::stop_token& stop);
  Released release_attempts(const Selector& selector, const std::vector<Observation>& workers,
                            const std::vector<Observation>& attempts, const std::set<Key>& kept,
                            const ReleaseCallbacks& callbacks, const std::stop_token& stop);
  std::optional<AssignedAttempt> find(const Key& key, const std::stop_token& stop);
  void read_log(const AssignedAttempt& found, const LogOptions& options, const OnLogPiece& on_piece,
                const std::stop_token& stop);

  Engine& engine_;
  Images images_;
  Fleet fleet_;
  std::mutex searched_mutex_;
  std::set<RunId> searched_;  // runs of other processes whose workers find() has listed
};

// The trials of other containers, and one container for each shape of workers. `first_of`: maps the name of
// such a container to the first trial of its shape.
Run with_workers_as_trials(const Run& run, Images& images, Staging staging,
                           std::map<std::string, std::string>& first_of) {
  Run changed = run;
  changed.experiment.trials.clear();
  std::set<std::string> shapes;
  for (const Trial& trial : run.experiment.trials) {
    if (trial.has_own_container()) {
      changed.experiment.trials.push_back(trial);
    } else if (shapes.insert(worker_shape(trial)).second) {
      Trial container =
          container_of(trial, worker_name(run.id, shapes.size()), images.agent_for(trial), staging);
      first_of.emplace(container.name, trial.name);
      changed.experiment.trials.push_back(std::move(container));
    }
  }
  return changed;
}

// True if release() could not remove the container of this attempt.
bool is_left(const Key& key, const Released& released) {
  return std::ranges::find(released.left, key.trial, &Error::subject) != released.left.end();
}

bool has_workers(const Experiment& experiment) {
  return std::ranges::any_of(experiment.trials,
                             [](const Trial& trial) { return !trial.has_own_container(); });
}

std::vector<Error> WorkersEngine::check(const Run& run, std::stop_token stop) {
  fleet_.adopt(run.id);
  if (!has_workers(run.experiment)) return engine_.check(run, stop);
  std::map<std::string, std::string> first_of;
  std::vector<Error> errors;
  for (const Error& error :
       engine_.check(with_workers_as_trials(run, images_, staging_of(engine_), first_of), stop)) {
    const auto first = first_of.find(error.subject());
    errors.emplace_back(error.kind(), first == first_of.end() ? error.subject() : first->second,
                        error.message());
  }
  const Facts facts = engine_.facts(stop);
  const auto first = std::ranges::find_if(run.experiment.trials,
                                          [](const Trial& trial) { return !trial.has_own_container(); });
  if (!facts.can_exec)
    errors.emplace_back(ErrorKind::refused, first->name + ": worker",
                        "this engine cannot run programs in running containers; remove `worker`");
  for (const StartLimit& limit : limits_of(run.experiment, facts.capacity)) {
    const Trial& trial = run.experiment.trials[limit.trials.front()];
    if (limit.attempts_max > 0) continue;
    errors.emplace_back(ErrorKind::invalid, trial.name,
                        fmt::format("a worker reserves {} for {} attempts at once, but the host has only {}; "
                                    "lower `worker.concurrency`",
                                    to_string(times(trial.slots, trial.worker->concurrency)),
                                    trial.worker->concurrency, to_string(facts.capacity)));
  }
  return errors;
}

std::vector<Error> WorkersEngine::prepare(const Run& run,
                                          const std::function<void(const Preparation&)>& on_progress,
                                          std::stop_token stop) {
  fleet_.adopt(run.id);
  if (!has_workers(run.experiment)) return engine_.prepare(run, on_progress, stop);
  std::vector<Error> lacking;
  std::mutex mutex;
  std::set<std::pair<std::string, std::string>> images;
  for (const Trial& trial : run.experiment.trials)
    if (!trial.has_own_container()) images.emplace(trial.image, trial.platform);
  const auto take = [&](const Preparation& preparation) {
    if (preparation.kind == Preparation::Kind::found) {
      images_.set_program(preparation.name, preparation.platform, preparation.program);
      if (images.contains({preparation.name, preparation.platform}) &&
          !images_.has_agent_for(preparation.program.platform)) {
        const std::scoped_lock lock(mutex);
        lacking.emplace_back(ErrorKind::refused, preparation.name,
                             fmt::format("the image is for {}, for which this combu has no agent; remove "
                                         "`worker`, or use a released combu",
                                         preparation.program.platform));
      }
    }
    on_progress(preparation);
  };
  std::vector<Error> errors = engine_.prepare(run, take, stop);
  std::ranges::move(lacking, std::back_inserter(errors));
  return errors;
}

StartResult WorkersEngine::start(const Run& run, const Trial& trial, int attempt, std::stop_token stop) {
  if (trial.has_own_container()) {
    while (true) {
      StartResult result = engine_.start(run, trial, attempt, stop);
      const auto* const taken = std::get_if<TakenByOther>(&result);
      const bool has_ended_worker = taken != nullptr
                                        ? fleet_.free_slots(taken->holder, stop)
                                        : std::holds_alternative<NoRoom>(result) && fleet_.free_room(stop);
      if (!has_ended_worker) return result;
    }
  }
  throw_if_cancelled({.run = run.id, .trial = trial.name, .attempt = attempt}, stop);
  if (!fleet_.is_adopted(run.id)) {
    fleet_.adopt(run.id);
    (void)list({.run = run.id}, ListDetail::basic, stop);
  }
  if (!images_.program_of(trial)) prepare_image(*this, run, trial, stop);
  (void)reveal_secrets(run, trial);  // throws if a value is unknown, before a worker is created
  while (true) {
    auto place = fleet_.reserve(run, trial, attempt, stop);
    if (auto* taken = std::get_if<TakenByOther>(&place)) return *taken;
    if (auto* no_room = std::get_if<NoRoom>(&place)) return *no_room;
    if (auto seen = std::get<AssignedAttempt>(place).start(run, trial, images_.program_of(trial), stop))
      return Running{*std::move(seen)};
  }
}

// Returns the attempt, if it is in a worker. Lists the workers of the run if this process does not know them.
std::optional<AssignedAttempt> WorkersEngine::find(const Key& key, const std::stop_token& stop) {
  if (auto found = fleet_.find(key)) return found;
  if (fleet_.is_adopted(key.run)) return std::nullopt;
  {
    const std::scoped_lock lock(searched_mutex_);
    if (searched_.contains(key.run)) return std::nullopt;
  }
  (void)list({.run = key.run}, ListDetail::basic, stop);
  const std::scoped_lock lock(searched_mutex_);
  searched_.insert(key.run);
  return fleet_.find(key);
}

void WorkersEngine::stop(const Key& key, std::optional<Seconds> grace, std::stop_token stop) {
  throw_if_cancelled(key, stop);
  if (const auto found = find(key, stop)) return found->end(grace, stop);
  engine_.stop(key, grace, stop);
}

// True if the attempts in the worker are listed instead of the worker.
bool WorkersEngine::stands_for_attempts(const Selector& selector, const Observation& container) {
  if (!is_worker_name(container.key.trial)) return false;
  return selector.run || !selector.experiment.empty() || !selector.file.empty() ||
         fleet_.is_adopted(container.key.run);
}

WorkersEngine::Listing WorkersEngine::list_containers(const Selector& selector, ListDetail detail,
                                                      const std::stop_token& stop) {
  Listing listing;
  const auto take = [&](std::vector<Observation> containers, bool has_others) {
    for (Observation& container : containers) {
      if (stands_for_attempts(selector, container)) {
        listing.workers.push_back(std::move(container));
      } else if (has_others) {
        listing.others.push_back(std::move(container));
      }
    }
  };
  take(engine_.list(selector, detail, stop), true);
  if (selector.trials.empty()) return listing;
  Selector all = selector;
  all.trials.clear();
  take(engine_.list(all, ListDetail::basic, stop), false);
  return listing;
}

std::vector<Observation> WorkersEngine::list(const Selector& selector, ListDetail detail,
                                             std::stop_token stop) {
  // This process knows the workers of its own runs.
  const bool knows_workers = !selector.trials.empty() && selector.run && fleet_.is_adopted(*selector.run);
  Listing listing;
  if (knows_workers) {
    listing.others = engine_.list(selector, detail, stop);
  } else {
    listing = list_containers(selector, detail, stop);
  }
  const std::vector<Error> errors = fleet_.discover(listing.workers, stop);
  if (!errors.empty()) throw Error(errors.front());
  if (detail != ListDetail::basic) fleet_.sync(selector.run, stop);
  for (const Observation& container : listing.workers) fleet_.see(container);
  std::vector<Observation> seen = std::move(listing.others);
  std::ranges::move(selected_attempts(selector), std::back_inserter(seen));
  return seen;
}

// Returns the selected attempts in all known workers.
std::vector<Observation> WorkersEngine::selected_attempts(const Selector& selector) {
  std::vector<Observation> attempts = fleet_.attempts();
  std::erase_if(attempts, [&](const Observation& attempt) { return !selects(selector, attempt); });
  return attempts;
}

void WorkersEngine::watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
                          std::stop_token stop) {
  Subscription attempts(selector);
  fleet_.subscribe(attempts);
  Selector all = selector;
  all.trials.clear();
  const auto watch_below = [&](const std::function<void(const Change&)>& pass_on,
                               const std::stop_token& until) {
    const auto take = [&](const Change& change) {
      const auto* seen = std::get_if<Observation>(&change);
      const bool is_of_worker = seen != nullptr && stands_for_attempts(selector, *seen);
      // The slots of a worker that is gone are free.
      const bool is_passed_on =
          seen == nullptr || (selects(selector, *seen) && (!is_of_worker || seen->phase == Phase::gone));
      if (is_passed_on) pass_on(change);
      if (!is_of_worker) return;
      // The owner of the run starts the lost attempts again. For other processes, the attempts are gone.
      if (seen->phase == Phase::gone && !fleet_.is_adopted(seen->key.run)) {
        fleet_.forget_worker(seen->key);
      } else {
        fleet_.see(*seen);
      }
    };
    engine_.watch(all, take, until);
  };
  watch_with(attempts, on_change, stop, watch_below, [&] { fleet_.unsubscribe(attempts); });
}

std::optional<Usage> WorkersEngine::usage(const std::string& id, std::stop_token stop) {
  const auto found = fleet_.find_by_id(id);
  if (!found) return engine_.usage(id, stop);
  if (!found->is_alive()) return std::nullopt;
  const auto client = found->worker->await_client(stop);
  return client ? client->usage(id_of(found->attempt->key), stop) : std::nullopt;
}

void WorkersEngine::logs(const Key& key, const LogOptions& options, const OnLogPiece& on_piece,
                         std::stop_token stop) {
  throw_if_cancelled(key, stop);
  const auto found = find(key, stop);
  if (!found) return engine_.logs(key, options, on_piece, stop);
  read_tail_first(options, on_piece, [&](const LogOptions& part, const OnLogPiece& sink) {
    read_log(*found, part, sink, stop);
  });
}

void WorkersEngine::read_log(const AssignedAttempt& found, const LogOptions& options,
                             const OnLogPiece& on_piece, const std::stop_token& stop) {
  const auto take = split_chunks_since(options.since, on_piece);
  if (const auto log = found.whole_log()) {
    std::ranges::for_each(*log, take);
    return;
  }
  bool is_whole = true;
  if (const auto client = found.worker->await_client(stop))
    is_whole = client->read_log(id_of(found.attempt->key), options, take, stop);
  else
    found.read_left_log(take, stop);
  if (!is_whole || found.lacks_log()) on_piece({.is_after_gap = true});
}

bool WorkersEngine::copy_out(const Key& key, const std::string& path,
                             const std::function<void(std::string_view)>& on_bytes, std::stop_token stop) {
  throw_if_cancelled(key, stop);
  const auto found = find(key, stop);
  if (!found) return engine_.copy_out(key, path, on_bytes, stop);
  AgentClient::Position from_begin;
  if (const auto client = found->worker->await_client(stop))
    return client->collect(id_of(key), path, from_begin, on_bytes, stop);
  const std::string there = path.starts_with('/') ? path : found->attempt->scratch + "/" + path;
  return engine_.copy_out(found->worker->key(), there, on_bytes, stop);
}

Released WorkersEngine::release(const Selector& selector, const ReleaseCallbacks& callbacks,
                                std::stop_token stop) {
  const Listing listing = list_containers(selector, ListDetail::basic, stop);
  if (listing.workers.empty()) return engine_.release(selector, callbacks, stop);
  (void)fleet_.discover(listing.workers, stop);  // a worker is removed even if its agent cannot be reached
  const std::vector<Observation> attempts = selected_attempts(selector);
  std::vector<Observation> all = listing.others;
  all.insert(all.end(), attempts.begin(), attempts.end());
  const std::set<Key> kept = callbacks.found ? callbacks.found(all) : std::set<Key>();
  Released released = selector.trials.empty()
                          ? release_with_workers(selector, listing.workers, attempts, kept, callbacks, stop)
                          : release_attempts(selector, listing.workers, attempts, kept, callbacks, stop);
  // The engine below counts containers.
  const auto is_removed = [&](const Observation& one) {
    return !kept.contains(one.key) && !is_left(one.key, released) && !fleet_.find(one.key);
  };
  released.attempts = static_cast<std::size_t>(std::ranges::count_if(all, is_removed));
  for (const Observation& attempt : attempts) released.experiments.insert(attempt.experiment);
  return released;
}

// Removes all selected containers, among them the workers without attempts to keep. The other workers forget
// the attempts that are removed.
Released WorkersEngine::release_with_workers(const Selector& selector,
                                             const std::vector<Observation>& workers,
                                             const std::vector<Observation>& attempts,
                                             const std::set<Key>& kept, const ReleaseCallbacks& callbacks,
                                             const std::stop_token& stop) {
  std::set<Key> kept_with_workers = kept;
  for (const Key& key : kept)
    if (const auto found = fleet_.find(key)) kept_with_workers.insert(found->worker->key());
  std::vector<Key> beside_kept;
  for (const Observation& attempt : attempts) {
    const auto found = fleet_.find(attempt.key);
    if (found && !kept.contains(attempt.key) && kept_with_workers.contains(found->worker->key()))
      beside_kept.push_back(attempt.key);
  }
  const auto errors = fleet_.remove_attempts(beside_kept, stop);
  const auto to_keep = [&](const std::vector<Observation>&) { return kept_with_workers; };
  Released released = engine_.release(selector, {.found = to_keep, .removed = callbacks.removed}, stop);
  for (const Observation& worker : workers)
    if (!kept_with_workers.contains(worker.key) && !is_left(worker.key, released))
      fleet_.forget_worker(worker.key);
  for (const auto& [worker, of_worker] : errors)
    released.left.insert(released.left.end(), of_worker.begin(), of_worker.end());
  return released;
}

// Removes the selected attempts, and then the workers without attempts.
Released WorkersEngine::release_attempts(const Selector& selector, const std::vector<Observation>& workers,
                                         const std::vector<Observation>& attempts, const std::set<Key>& kept,
                                         const ReleaseCallbacks& callbacks, const std::stop_token& stop) {
  std::vector<Key> removed;
  for (const Observation& attempt : attempts)
    if (!kept.contains(attempt.key)) removed.push_back(attempt.key);
  auto errors = fleet_.remove_attempts(removed, stop);
  const auto to_keep = [&](const std::vector<Observation>&) { return kept; };
  Released released = engine_.release(selector, {.found = to_keep, .removed = callbacks.removed}, stop);
  std::set<RunId> runs;
  for (const Observation& worker : workers) runs.insert(worker.key.run);
  for (const Key& worker : fleet_.without_attempts(runs)) {
    const Released one = engine_.release({.run = worker.run, .trials = {worker.trial}}, {}, stop);
    released.left.insert(released.left.end(), one.left.begin(), one.left.end());
    if (!one.left.empty()) continue;
    fleet_.forget_worker(worker);
    errors.erase(worker);  // its attempts have ended with it
  }
  for (const auto& [worker, of_worker] : errors)
    released.left.insert(released.left.end(), of_worker.begin(), of_worker.end());
  return released;
}

}  // namespace
}  // namespace workers

std::unique_ptr<Engine> with_workers(Engine& engine, AgentPrograms programs) {
  return std::make_unique<workers::WorkersEngine>(engine, std::move(programs));
}

Run with_worker_containers(const Run& run, AgentPrograms programs) {
  workers::Images images(std::move(programs));
  std::map<std::string, std::string> first_of;
  return workers::with_workers_as_trials(run, images, workers::Staging::by_agent, first_of);
}

}  // namespace combu
