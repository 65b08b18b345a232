#include "workers/fleet.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "workers/agent_files.hpp"

namespace combu::workers {
namespace {

constexpr std::size_t k_ends_in_parallel = 8;
constexpr std::chrono::seconds k_end_max{10};
constexpr std::chrono::seconds k_retiring_max{2};
constexpr std::size_t k_connects_in_parallel = 8;
constexpr std::chrono::seconds k_listing_max{20};
constexpr std::chrono::milliseconds k_look_pause{10'000};
constexpr std::chrono::milliseconds k_look_pause_unwatched{200};  // no call of watch() gets the changes

// True if the trial has inputs that are staged into the container of its worker.
bool has_container_inputs(const Trial& trial) {
  return std::ranges::any_of(trial.inputs, [](const Input& input) { return !input.in_scratch; });
}

}  // namespace

Fleet::Fleet(Engine& engine, Images& images) : images_(images), all_(engine) {}

Fleet::~Fleet() {
  keeper_.reset();
  std::vector<WorkerPtr> idle;
  std::vector<std::shared_ptr<AgentClient>> clients;
  {
    const std::scoped_lock lock(all_.mutex);
    for (const auto& [key, worker] : all_.workers) {
      if (worker->client) clients.push_back(std::exchange(worker->client, nullptr));
      const bool is_being_created = worker->state == Worker::State::creating &&
                                    !worker->creation.is_pending && !worker->creation.is_left;
      if (worker->is_own && worker->attempts.empty() && !is_being_created) idle.push_back(worker);
    }
  }
  clients.clear();  // joins their threads
  std::stop_source stop;
  const std::jthread timer([&stop](const std::stop_token& quit) {
    real_clock().wait(k_end_max, quit);
    stop.request_stop();
  });
  in_parallel(idle.size(), k_ends_in_parallel, [&](std::size_t i) {
    // If this fails, the agent ends the worker after its idle time.
    (void)idle[i]->try_remove_container(stop.get_token());
  });
}

void Fleet::adopt(const RunId& run) {
  const std::scoped_lock lock(all_.mutex);
  if (!adopted_.insert(run).second) return;
  // The process may have listed the workers of the run before.
  for (const auto& [key, worker] : all_.workers)
    if (key.run == run) worker->is_own = true;
}

bool Fleet::is_adopted(const RunId& run) {
  const std::scoped_lock lock(all_.mutex);
  return adopted_.contains(run);
}

// ---- Attempts

std::optional<AssignedAttempt> Fleet::find(const Key& key) {
  const std::scoped_lock lock(all_.mutex);
  const std::string id = id_of(key);
  for (const auto& [worker_key, worker] : all_.workers) {
    if (worker_key.run != key.run) continue;
    const auto found = worker->attempts.find(id);
    if (found != worker->attempts.end()) return AssignedAttempt{worker, found->second};
  }
  return std::nullopt;
}

std::optional<AssignedAttempt> Fleet::find_by_id(const std::string& id) {
  const std::scoped_lock lock(all_.mutex);
  const std::size_t slash = id.find('/');
  if (slash == std::string::npos) return std::nullopt;
  for (const auto& [key, worker] : all_.workers) {
    if (id.compare(0, slash, worker->container.id) != 0) continue;
    const auto found = worker->attempts.find(id.substr(slash + 1));
    if (found != worker->attempts.end()) return AssignedAttempt{worker, found->second};
  }
  return std::nullopt;
}

std::vector<Observation> Fleet::attempts() {
  const std::scoped_lock lock(all_.mutex);
  std::vector<Observation> seen;
  for (const auto& [key, worker] : all_.workers)
    for (const auto& [id, attempt] : worker->attempts)
      if (attempt->state == Attempt::State::running || attempt->state == Attempt::State::ended)
        seen.push_back(worker->observation_of(*attempt));
  return seen;
}

// Call this before a worker is added, without the mutex. A process without workers has no threads of a
// keeper.
void Fleet::begin_keeping() {
  std::call_once(begun_keeping_, [this] { keeper_.emplace(all_); });
}

// Returns the worker with the most free places, if possible one that runs.
WorkerPtr Fleet::find_free_worker(const Run& run, const Trial& trial, const Note& note) {
  WorkerPtr best;
  for (const auto& [key, worker] : all_.workers) {
    if (key.run != run.id || worker->note.shape != note.shape) continue;
    worker->limits = *trial.worker;  // another process may have created the worker
    worker->has_gpus = !trial.gpus->empty();
    // This process does not know of which image and inputs the container was made.
    if (!worker->is_created_here && (trial.cache.on || has_container_inputs(trial)))
      worker->is_retiring = true;
    if (!worker->has_room()) continue;
    const auto rank = [](Worker& one) {
      return std::pair(one.state != Worker::State::connected, one.alive());
    };
    if (!best || rank(*worker) < rank(*best)) best = worker;
  }
  return best;
}

// Returns a worker whose container does not exist yet.
WorkerPtr Fleet::add_worker(const Run& run, const Trial& trial, const Note& note) {
  const auto worker = std::make_shared<Worker>(all_);
  worker->container.key = {.run = run.id, .trial = worker_name(run.id, ++last_number_[run.id]), .attempt = 1};
  worker->container.experiment = run.experiment.name;
  worker->container.file = run.experiment.file;
  worker->container.image = trial.image;
  worker->note = note;
  worker->limits = *trial.worker;
  worker->is_own = true;
  worker->is_created_here = true;
  all_.workers.emplace(worker->key(), worker);
  return worker;
}

// Removes the earlier attempts of a trial, which have ended. Throws Error(conflict) if one of them runs.
void Fleet::remove_earlier(const Key& key, const std::stop_token& stop) {
  if (key.attempt <= 1) return;
  std::vector<Key> earlier;
  {
    const std::scoped_lock lock(all_.mutex);
    for (const auto& [worker_key, worker] : all_.workers) {
      if (worker_key.run != key.run) continue;
      for (const auto& [id, attempt] : worker->attempts) {
        if (attempt->key.trial != key.trial || attempt->key.attempt >= key.attempt) continue;
        if (attempt->state == Attempt::State::sent || attempt->state == Attempt::State::running)
          throw Error(ErrorKind::conflict, key.trial,
                      fmt::format("attempt {} of the trial still runs", attempt->key.attempt));
        if (attempt->state == Attempt::State::ended) earlier.push_back(attempt->key);
      }
    }
  }
  const auto errors = remove_attempts(earlier, stop);
  if (!errors.empty()) throw Error(errors.begin()->second.front());
}

Fleet::Place Fleet::reserve(const Run& run, const Trial& trial, int attempt, const std::stop_token& stop) {
  const Key key{.run = run.id, .trial = trial.name, .attempt = attempt};
  if (auto found = find(key)) {
    const std::scoped_lock lock(all_.mutex);
    const Attempt::State state = found->attempt->state;
    if (state != Attempt::State::refused && state != Attempt::State::displaced) return *found;
    found->worker->attempts.erase(id_of(key));
  }
  remove_earlier(key, stop);
  const Note note = note_of(trial);
  begin_keeping();
  WorkerPtr free;
  const auto is_free = [&] { return (free = find_free_worker(run, trial, note)) != nullptr; };
  while (true) {
    std::optional<AssignedAttempt> first;
    {
      const std::scoped_lock lock(all_.mutex);
      if (is_free()) {
        ++free->begun;
        return AssignedAttempt{free, free->add_attempt(key, trial.slots)};
      }
      const WorkerPtr created = add_worker(run, trial, note);
      ++created->begun;
      first = AssignedAttempt{created, created->add_attempt(key, trial.slots)};
    }
    Place place = create_for(*first, run, trial, stop);
    const auto* const no_room = std::get_if<NoRoom>(&place);
    if (no_room == nullptr) return place;
    std::unique_lock lock(all_.mutex);
    const bool has_others = std::ranges::any_of(all_.workers, [&](const auto& one) {
      return one.first.run == run.id && one.second->note.shape == note.shape;
    });
    if (!has_others || stop.stop_requested()) return place;
    all_.changed.wait_for(lock, stop, no_room->retry_after, is_free);
  }
}

// Creates the container of a worker for its first attempt, and connects to its agent. If the container has to
// wait, and the attempt gets a place in another worker meanwhile, returns at once.
Fleet::Place Fleet::create_for(const AssignedAttempt& first, const Run& run, const Trial& trial,
                               const std::stop_token& stop) {
  const WorkerPtr& created = first.worker;
  const auto give_up = [&] {
    const std::scoped_lock lock(all_.mutex);
    displace_attempts(*created);
    all_.workers.erase(created->key());
  };
  try {
    const StartResult result = create(first, run, trial, stop);
    if (const auto* taken = std::get_if<TakenByOther>(&result)) {
      give_up();
      return *taken;
    }
    if (const auto* no_room = std::get_if<NoRoom>(&result)) {
      give_up();
      return *no_room;
    }
    if (std::holds_alternative<Accepted>(result)) return first;
    try {
      created->connect(stop);
    } catch (const Error&) {
      // Not `stop`: the container must not stay after a cancellation.
      (void)created->try_remove_container({});
      throw;
    }
  } catch (...) {
    // The container may exist. The keeper removes the worker, because its state is `over`.
    {
      const std::scoped_lock lock(all_.mutex);
      displace_attempts(*created);
    }
    all_.changed.notify_all();
    throw;
  }
  const std::scoped_lock lock(all_.mutex);
  if (!created->attempts.contains(id_of(first.attempt->key)) &&
      first.attempt->state != Attempt::State::displaced)
    throw Error(ErrorKind::unavailable, trial.name, "its worker was removed before the attempt began");
  return first;
}

// Makes the starts that have reserved a place in the worker look for another one.
void Fleet::displace_attempts(Worker& worker) {
  worker.become(Worker::State::over);
  for (const auto& [id, attempt] : std::exchange(worker.attempts, {})) {
    attempt->state = Attempt::State::displaced;
    attempt->changed.notify_all();
  }
}

// Returns Accepted if the container does not run yet, and the attempt has been displaced.
StartResult Fleet::create(const AssignedAttempt& first, const Run& run, const Trial& trial,
                          const std::stop_token& stop) {
  const WorkerPtr& worker = first.worker;
  const Staging staging = staging_of(all_.engine);
  const Trial container = container_of(trial, worker->key().trial, images_.agent_for(trial), staging);
  const bool has_unstaged = staging == Staging::by_agent && !container.inputs.empty();
  if (has_unstaged) check_inputs(container);
  {
    const std::scoped_lock lock(all_.mutex);
    if (has_unstaged) worker->creation.unstaged = container;
    worker->container.slots = container.slots;
    worker->has_gpus = !container.gpus->empty();
  }
  StartResult result = all_.engine.start(run, container, 1, stop);
  while (true) {
    const auto* const taken = std::get_if<TakenByOther>(&result);
    const bool has_ended_one = taken != nullptr
                                   ? free_slots(taken->holder, stop)
                                   : std::holds_alternative<NoRoom>(result) &&
                                         !has_free_place(run, trial, worker->note) && free_room(stop);
    if (!has_ended_one) break;
    result = all_.engine.start(run, container, 1, stop);
  }
  if (std::holds_alternative<Accepted>(result)) {
    auto seen = await_container(worker, *first.attempt, stop);
    if (!seen) return Accepted{};
    result = Running{*std::move(seen)};
  }
  if (const auto* running = std::get_if<Running>(&result)) {
    const std::scoped_lock lock(all_.mutex);
    worker->container.id = running->observation.id;
    worker->container.digest = running->observation.digest;
    worker->container.inputs = running->observation.inputs;
  }
  return result;
}

// Waits until the container runs, which the engine has accepted, and returns the engine's report. Returns
// nullopt if `attempt`, which waits for the container, has been displaced: then the keeper connects. Throws
// Error(unavailable) if the container ends before, Error(refused) if it cannot be started, and
// Error(cancelled).
std::optional<Observation> Fleet::await_container(const WorkerPtr& worker, const Attempt& attempt,
                                                  const std::stop_token& stop) {
  const Key key = worker->key();
  std::unique_lock lock(all_.mutex);
  worker->creation.is_pending = !worker->creation.last || worker->creation.last->phase == Phase::pending;
  // Places may have become free before this worker counted as pending.
  for (const auto& [other_key, other] : all_.workers)
    if (other_key.run == key.run && other->note.shape == worker->note.shape) other->offer_places();
  const auto has_begun = [&] {
    return worker->creation.last && worker->creation.last->phase != Phase::pending;
  };
  const auto is_settled = [&] {
    return has_begun() || worker->state == Worker::State::over || attempt.state == Attempt::State::displaced;
  };
  while (!is_settled()) {
    const auto pause = all_.is_watched(worker->container) ? k_look_pause : k_look_pause_unwatched;
    const bool is_in_time = all_.changed.wait_for(lock, stop, pause, is_settled);
    if (stop.stop_requested()) throw Error(ErrorKind::cancelled, key.trial, "cancelled");
    if (is_in_time) break;
    lock.unlock();  // a change may have been lost
    look_at(key, stop);
    lock.lock();
  }
  if (!has_begun() && worker->state == Worker::State::over)
    throw Error(ErrorKind::unavailable, key.trial, "the worker was removed");
  worker->creation.is_left = !has_begun();
  if (worker->creation.is_left) return std::nullopt;
  Observation seen = *std::exchange(worker->creation.last, std::nullopt);
  if (seen.phase == Phase::running) return seen;
  if (!seen.placement.start_error.empty())
    throw Error(ErrorKind::refused, key.trial, seen.placement.start_error);
  throw Error(ErrorKind::unavailable, key.trial,
              fmt::format("the worker has ended: {}", seen.lost.empty() ? seen.status : seen.lost));
}

// Handles the present state of the worker's container. If the engine cannot be reached, does nothing.
void Fleet::look_at(const Key& key, const std::stop_token& stop) {
  std::vector<Observation> listed;
  try {
    listed = all_.engine.list({.run = key.run, .trials = {key.trial}}, ListDetail::consistent, stop);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::unavailable || error.kind() == ErrorKind::timeout) return;
    throw;
  }
  if (listed.empty()) throw Error(ErrorKind::unavailable, key.trial, "the worker was removed");
  see(listed.front());
}

// True if a worker of the shape that runs has a free place.
bool Fleet::has_free_place(const Run& run, const Trial& trial, const Note& note) {
  const std::scoped_lock lock(all_.mutex);
  const WorkerPtr free = find_free_worker(run, trial, note);
  return free && free->state == Worker::State::connected;
}

bool Fleet::free_slots(const Observation& holder, const std::stop_token& stop) {
  return end_idle(Idle::with_claim, stop) || await_end_of(holder, stop);
}

bool Fleet::end_idle(Idle which, const std::stop_token& stop) {
  WorkerPtr idle;
  {
    const std::scoped_lock lock(all_.mutex);
    for (const auto& [key, worker] : all_.workers)
      if (worker->is_own && worker->state == Worker::State::connected && worker->attempts.empty() &&
          (which == Idle::any || worker->has_claim()))
        idle = worker;
    if (idle) idle->become(Worker::State::over);
  }
  return idle && idle->try_remove(stop);
}

// Waits a moment for the end of `holder`, if it is a worker of this process with places that no attempt uses.
bool Fleet::await_end_of(const Observation& holder, const std::stop_token& stop) {
  std::unique_lock lock(all_.mutex);
  const auto found = all_.workers.find(holder.key);
  if (found == all_.workers.end() || !found->second->is_own) return false;
  const WorkerPtr worker = found->second;
  if (worker->alive() >= worker->note.concurrency) return false;
  worker->is_retiring = true;
  const auto is_over = [&] { return !all_.workers.contains(worker->key()); };
  return all_.changed.wait_for(lock, stop, k_retiring_max, is_over);
}

void Fleet::acknowledge(const std::vector<Key>& keys) {
  const std::scoped_lock lock(all_.mutex);
  for (const Key& key : keys) {
    const std::string id = id_of(key);
    for (const auto& [worker_key, worker] : all_.workers) {
      if (worker_key.run != key.run) continue;
      const auto found = worker->attempts.find(id);
      if (found == worker->attempts.end() || found->second->is_alive()) continue;
      worker->forget_later(id);
      break;
    }
  }
}

std::map<Key, std::vector<Error>> Fleet::remove_attempts(const std::vector<Key>& keys,
                                                         const std::stop_token& stop) {
  struct Removal {
    WorkerPtr worker;
    std::vector<Key> keys;
    std::vector<std::string> ids;
    std::shared_ptr<AgentClient> client;  // has got the message
  };
  std::map<Key, Removal> by_worker;
  {
    const std::scoped_lock lock(all_.mutex);
    for (const Key& key : keys)
      for (const auto& [worker_key, worker] : all_.workers) {
        if (worker_key.run != key.run) continue;
        const auto removed = worker->forget(id_of(key));
        if (!removed) continue;
        worker->drop(*removed);
        Removal& removal = by_worker[worker_key];
        removal.worker = worker;
        removal.keys.push_back(key);
        removal.ids.push_back(id_of(key));
      }
    // All agents get their messages before combu waits for one of them.
    for (auto& [worker_key, removal] : by_worker) {
      if (removal.worker->state != Worker::State::connected) continue;
      removal.client = removal.worker->client;
      removal.client->forget(removal.ids);
    }
  }
  std::map<Key, std::vector<Error>> errors;
  for (auto& [worker, removal] : by_worker) {
    try {
      if (!removal.client) {
        removal.client = removal.worker->await_client(stop);
        if (!removal.client) continue;
        removal.client->forget(removal.ids);
      }
      removal.client->sync(stop);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unavailable) throw;
      for (const Key& key : removal.keys)
        errors[worker].emplace_back(error.kind(), key.trial, error.message());
    }
  }
  return errors;
}

// ---- Workers

std::vector<Error> Fleet::discover(const std::vector<Observation>& containers, const std::stop_token& stop) {
  if (!containers.empty()) begin_keeping();
  const std::vector<Found> fresh = add_workers(containers);
  std::vector<Error> errors;
  std::mutex errors_mutex;
  in_parallel(fresh.size(), k_connects_in_parallel, [&](std::size_t i) {
    auto error = get_to_know(fresh[i], stop);
    const std::scoped_lock lock(errors_mutex);
    if (error) errors.push_back(*std::move(error));
  });
  std::unique_lock lock(all_.mutex);
  for (const Observation& container : containers) {
    const auto found = all_.workers.find(container.key);
    if (found == all_.workers.end() || container.phase != Phase::running) continue;
    const WorkerPtr worker = found->second;
    // Another thread may be connecting to it.
    const auto is_settled = [&] {
      return worker->state != Worker::State::creating || worker->is_created_here;
    };
    if (!all_.changed.wait_for(lock, stop, k_listing_max, is_settled) && stop.stop_requested())
      throw Error(ErrorKind::cancelled, worker->key().trial, "cancelled");
    if (worker->is_known() || worker->is_created_here) continue;
    errors.emplace_back(ErrorKind::unavailable, worker->key().trial,
                        fmt::format("the agent of the worker cannot be reached: {}", worker->broken_why));
    // The keeper connects again to a worker of this process, and removes it after a time. Another process
    // tries again at its next listing.
    if (!worker->is_own) {
      worker->become(Worker::State::over);
      all_.workers.erase(worker->key());
    }
  }
  lock.unlock();
  all_.changed.notify_all();
  return errors;
}

// Adds the workers that this process does not know yet, and returns them.
std::vector<Fleet::Found> Fleet::add_workers(const std::vector<Observation>& containers) {
  std::vector<Found> fresh;
  const std::scoped_lock lock(all_.mutex);
  for (const Observation& container : containers) {
    std::size_t& last = last_number_[container.key.run];
    last = std::max(last, number_of_worker(container.key.run, container.key.trial).value_or(0));
    // Another process may be starting the container.
    const bool has_begun = container.phase != Phase::created && container.phase != Phase::pending;
    if (!has_begun && !adopted_.contains(container.key.run)) continue;
    if (all_.workers.contains(container.key)) continue;
    const auto worker = std::make_shared<Worker>(all_);
    worker->container = container;
    worker->is_own = adopted_.contains(container.key.run);
    if (container.created_at != Instant{})
      worker->created_at -= std::chrono::duration_cast<Steady::duration>(
          std::max(Seconds(0), Seconds(real_clock().now() - container.created_at)));
    all_.workers.emplace(container.key, worker);
    fresh.push_back({worker, container.phase});
  }
  return fresh;
}

// Connects to the worker, or reads the results that it has left. Returns an error if that fails for a worker
// that has ended.
std::optional<Error> Fleet::get_to_know(const Found& found, const std::stop_token& stop) {
  const WorkerPtr& worker = found.worker;
  try {
    if (found.phase == Phase::created || found.phase == Phase::pending) {
      worker->end_attempts("its worker was not started");
    } else if (found.phase == Phase::running) {
      worker->connect_or_end(stop);
    } else {
      (void)worker->handle_end(stop);
    }
    return std::nullopt;
  } catch (const Error& error) {
    const bool may_connect = found.phase == Phase::running && error.kind() != ErrorKind::cancelled;
    {
      const std::scoped_lock lock(all_.mutex);
      worker->broken_why = error.message();
      if (may_connect) {
        worker->reconnect_soon();
      } else {
        worker->become(Worker::State::over);
        all_.workers.erase(worker->key());
      }
    }
    all_.changed.notify_all();
    if (error.kind() == ErrorKind::cancelled) throw;
    return may_connect ? std::nullopt : std::optional(error);
  }
}

void Fleet::sync(const std::optional<RunId>& run, const std::stop_token& stop) {
  std::vector<std::shared_ptr<AgentClient>> clients;
  {
    const std::scoped_lock lock(all_.mutex);
    for (const auto& [key, worker] : all_.workers)
      if ((!run || key.run == *run) && worker->state == Worker::State::connected)
        clients.push_back(worker->client);
  }
  for (const std::shared_ptr<AgentClient>& client : clients) {
    try {
      client->sync(stop);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unavailable) throw;
    }
  }
}

void Fleet::see(const Observation& container) {
  {
    const std::scoped_lock lock(all_.mutex);
    const auto found = all_.workers.find(container.key);
    if (found == all_.workers.end() || found->second->state == Worker::State::over) return;
    Worker& worker = *found->second;
    const bool has_begun = worker.creation.last && worker.creation.last->phase != Phase::pending;
    if (has_begun && container.phase == Phase::pending) return;  // an older listing
    if (worker.state == Worker::State::creating && worker.is_created_here) worker.creation.last = container;
    if (container.phase != Phase::pending) worker.creation.is_pending = false;
    if (container.phase == Phase::running && worker.creation.is_left) {
      worker.container.id = container.id;
      worker.container.digest = container.digest;
      worker.container.inputs = container.inputs;
      worker.reconnect_soon();
    }
    if (container.phase == Phase::ended || container.phase == Phase::gone)
      worker.reconnect_soon();  // finds that the container has ended
    if (container.phase == Phase::pending) worker.publish_pending(container.placement.pending_reason);
  }
  all_.changed.notify_all();
}

void Fleet::forget_worker(const Key& key) {
  std::shared_ptr<AgentClient> client;
  {
    const std::scoped_lock lock(all_.mutex);
    const auto found = all_.workers.find(key);
    if (found == all_.workers.end()) return;
    const WorkerPtr worker = found->second;
    worker->become(Worker::State::over);
    client = std::exchange(worker->client, nullptr);
    for (const auto& [id, attempt] : std::exchange(worker->attempts, {})) worker->drop(*attempt);
    all_.workers.erase(key);
  }
  all_.changed.notify_all();
}

std::vector<Key> Fleet::without_attempts(const std::set<RunId>& runs) {
  const std::scoped_lock lock(all_.mutex);
  std::vector<Key> keys;
  for (const auto& [key, worker] : all_.workers)
    if (runs.contains(key.run) && worker->attempts.empty()) keys.push_back(key);
  return keys;
}

// ---- Subscriptions

void Fleet::subscribe(Subscription& subscription) {
  const std::scoped_lock lock(all_.mutex);
  all_.subscriptions.push_back(&subscription);
}

void Fleet::unsubscribe(Subscription& subscription) {
  const std::scoped_lock lock(all_.mutex);
  std::erase(all_.subscriptions, &subscription);
}

}  // namespace combu::workers
