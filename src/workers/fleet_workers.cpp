// The workers of Fleet: those that the engine lists, those that end, and the thread that keeps the
// connections.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "workers/fleet.hpp"
#include "workers/results_file.hpp"

namespace combu::workers {
namespace {

// A worker that holds slots ends after this time without attempts, because other attempts may need the slots.
constexpr std::chrono::milliseconds k_claim_idle{500};
constexpr std::chrono::milliseconds k_keeper_pause{200};
constexpr std::chrono::seconds k_ping_every{15};
// If an agent does not answer for this time although its container runs, the worker counts as lost.
constexpr std::chrono::seconds k_reconnect_max{30};
constexpr Seconds k_reconnect_pause_max{2};
constexpr std::chrono::seconds k_remove_pause{1};
constexpr std::size_t k_connects_in_parallel = 8;

}  // namespace

std::vector<Error> Fleet::discover(const std::vector<Observation>& containers, const std::stop_token& stop) {
  std::vector<std::pair<WorkerPtr, const Observation*>> fresh;
  {
    const std::scoped_lock lock(mutex_);
    for (const Observation& container : containers) {
      std::size_t& last = last_number_[container.key.run];
      last = std::max(last, number_of_worker(container.key.run, container.key.trial).value_or(0));
      // Another process may be starting the container.
      if (container.phase == Phase::created && !adopted_.contains(container.key.run)) continue;
      const auto [at, is_new] = workers_.try_emplace(container.key);
      if (!is_new) continue;
      at->second = std::make_shared<Worker>();
      Worker& worker = *at->second;
      worker.key = container.key;
      worker.experiment = container.experiment;
      worker.file = container.file;
      worker.image = container.image;
      worker.id = container.id;
      worker.slots = container.slots;
      worker.is_own = adopted_.contains(container.key.run);
      fresh.emplace_back(at->second, &container);
    }
  }
  std::mutex errors_mutex;
  std::vector<Error> errors;
  in_parallel(fresh.size(), k_connects_in_parallel, [&](std::size_t i) {
    const auto& [worker, container] = fresh[i];
    try {
      if (container->phase == Phase::created) return end_attempts(*worker, "its worker was not started");
      if (container->phase == Phase::running) return connect_or_end(worker, stop);
      (void)take_end(worker, stop);
    } catch (const Error& error) {
      {
        const std::scoped_lock lock(mutex_);
        workers_.erase(worker->key);
      }
      if (error.kind() == ErrorKind::cancelled) throw;
      const std::scoped_lock lock(errors_mutex);
      errors.push_back(error);
    }
  });
  return errors;
}

// Connects to a worker that has been listed as running. It may have ended since.
void Fleet::connect_or_end(const WorkerPtr& worker, const std::stop_token& stop) {
  try {
    connect(worker, stop);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) throw;
    if (take_end(worker, stop)) return;
    throw Error(ErrorKind::unavailable, worker->key.trial,
                fmt::format("the agent of the worker cannot be reached: {}", error.message()));
  }
}

void Fleet::sync(const std::optional<RunId>& run, const std::stop_token& stop) {
  std::vector<std::shared_ptr<AgentClient>> clients;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [key, worker] : workers_)
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

std::vector<Observation> Fleet::attempts() {
  const std::scoped_lock lock(mutex_);
  std::vector<Observation> seen;
  for (const auto& [key, worker] : workers_)
    for (const auto& [id, attempt] : worker->attempts)
      if (attempt->state == Attempt::State::running || attempt->state == Attempt::State::ended)
        seen.push_back(observation_of(*worker, *attempt));
  return seen;
}

void Fleet::see(const Observation& container) {
  if (container.phase != Phase::ended && container.phase != Phase::gone) return;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = workers_.find(container.key);
    if (found == workers_.end() || found->second->state == Worker::State::over) return;
    reconnect_soon(found->second);  // finds that the container has ended
  }
  changed_.notify_all();
}

bool Fleet::end_idle(const std::stop_token& stop) {
  WorkerPtr idle;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [key, worker] : workers_)
      if (worker->is_own && worker->state == Worker::State::connected && worker->attempts.empty() &&
          !worker->slots.empty())
        idle = worker;
    if (idle) idle->state = Worker::State::over;
  }
  return idle && try_remove(idle, stop);
}

// Ends the worker's container. The state of the worker must be `over`. Returns false if the container could
// not be removed: then the keeper tries again.
bool Fleet::try_remove(const WorkerPtr& worker, const std::stop_token& stop) {
  std::shared_ptr<AgentClient> client;
  {
    const std::scoped_lock lock(mutex_);
    client = std::exchange(worker->client, nullptr);
  }
  client.reset();
  const bool is_removed = try_remove_container(*worker, stop);
  {
    const std::scoped_lock lock(mutex_);
    worker->remove_at = Steady::now() + k_remove_pause;
    if (is_removed) workers_.erase(worker->key);
  }
  changed_.notify_all();
  return is_removed;
}

bool Fleet::try_remove_container(const Worker& worker, const std::stop_token& stop) {
  try {
    return engine_.release({.run = worker.key.run, .trials = {worker.key.trial}}, {}, stop).left.empty();
  } catch (const Error&) {
    return false;
  }
}

void Fleet::forget_worker(const Key& key) {
  std::shared_ptr<AgentClient> client;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = workers_.find(key);
    if (found == workers_.end()) return;
    const WorkerPtr worker = found->second;
    worker->state = Worker::State::over;
    client = std::exchange(worker->client, nullptr);
    for (const auto& [id, attempt] : std::exchange(worker->attempts, {})) drop(*worker, *attempt);
    workers_.erase(key);
  }
  changed_.notify_all();
}

// Reports that the attempt was removed.
void Fleet::drop(const Worker& worker, Attempt& attempt) {
  Observation seen = observation_of(worker, attempt);
  seen.phase = Phase::gone;
  if (attempt.is_alive()) attempt.state = Attempt::State::refused;
  attempt.changed.notify_all();
  for (Subscription* subscription : subscriptions_) subscription->push_selected(seen);
}

void Fleet::remove_attempts(const std::vector<Key>& keys, const std::stop_token& stop) {
  std::map<WorkerPtr, std::vector<std::string>> by_worker;
  {
    const std::scoped_lock lock(mutex_);
    for (const Key& key : keys)
      for (const auto& [worker_key, worker] : workers_) {
        if (worker_key.run != key.run) continue;
        auto found = worker->attempts.extract(id_of(key));
        if (found.empty()) continue;
        drop(*worker, *found.mapped());
        worker->forgotten.insert(id_of(key));
        worker->idle_since = Steady::now();
        by_worker[worker].push_back(id_of(key));
      }
  }
  for (auto& [worker, ids] : by_worker)
    if (const auto client = client_of(worker, stop)) {
      client->send(agent::Forget{.ids = std::move(ids)});
      client->sync(stop);
    }
}

std::vector<Key> Fleet::without_attempts(const std::set<RunId>& runs) {
  const std::scoped_lock lock(mutex_);
  std::vector<Key> keys;
  for (const auto& [key, worker] : workers_)
    if (runs.contains(key.run) && worker->attempts.empty()) keys.push_back(key);
  return keys;
}

// ---- Workers that have ended

// Handles the end of the worker's container. Returns false if the container runs.
bool Fleet::take_end(const WorkerPtr& worker, const std::stop_token& stop) {
  const std::vector<Observation> listed =
      engine_.list({.run = worker->key.run, .trials = {worker->key.trial}}, ListDetail::full, stop);
  if (listed.empty()) {
    end_attempts(*worker, "its worker was removed");
    return true;
  }
  const Observation& container = listed.front();
  if (container.phase == Phase::running || container.phase == Phase::created) return false;
  // After another end, the file may be the work of an attempt.
  if (container.exit_code == 0) read_results(worker, stop);
  end_attempts(*worker,
               fmt::format("its worker ended{}{}", container.oom ? ", out of memory" : "",
                           container.exit_code ? fmt::format(" (exit code {})", *container.exit_code) : ""));
  return true;
}

// Counts the attempts of a worker that have not ended as lost.
void Fleet::end_attempts(Worker& worker, const std::string& why) {
  {
    const std::scoped_lock lock(mutex_);
    worker.state = Worker::State::over;  // from now on, the keeper may remove the container
    for (const auto& [id, attempt] : worker.attempts) {
      if (attempt->state == Attempt::State::reserved) {
        attempt->state = Attempt::State::refused;
        attempt->changed.notify_all();
      } else if (attempt->is_alive()) {
        lose(worker, *attempt, why);
      }
    }
  }
  changed_.notify_all();
}

// Reads the results that the agent has left. Throws if the engine cannot be reached.
void Fleet::read_results(const WorkerPtr& worker, const std::stop_token& stop) {
  std::vector<Result> results;
  try {
    results = results_of(engine_, worker->key, fmt::format("{}/results", k_folder), stop);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled || error.kind() == ErrorKind::unavailable) throw;
  }
  for (Result& result : results) {
    const std::scoped_lock lock(mutex_);
    take_started(*worker, result.started);
    const std::string id = result.ended.id;
    take_ended(*worker, std::move(result.ended));
    const auto found = worker->attempts.find(id);
    if (found != worker->attempts.end()) found->second->log = std::move(result.log);
  }
}

// ---- The keeper

void Fleet::keep(const std::stop_token& quit) {
  Steady::time_point pinged = Steady::now();
  while (!quit.stop_requested()) {
    std::optional<Reconnection> task;
    std::vector<WorkerPtr> to_ping;
    std::vector<WorkerPtr> ending;
    std::vector<std::pair<WorkerPtr, std::string>> stale;
    {
      std::unique_lock lock(mutex_);
      const auto now = Steady::now();
      const auto due = std::ranges::find_if(reconnections_, [&](const auto& one) { return one.at <= now; });
      if (due != reconnections_.end()) {
        task = std::move(*due);
        reconnections_.erase(due);
      }
      ending = to_end(now);
      stale = std::exchange(stale_, {});
      if (now - pinged > k_ping_every) {
        pinged = now;
        for (const auto& [key, worker] : workers_)
          if (worker->state == Worker::State::connected) to_ping.push_back(worker);
      }
      if (!task && ending.empty() && to_ping.empty() && stale.empty()) {
        if (workers_.empty()) {
          changed_.wait(lock, quit, [&] { return !workers_.empty() || !reconnections_.empty(); });
        } else {
          changed_.wait_for(lock, quit, k_keeper_pause, [&] {
            return std::ranges::any_of(reconnections_,
                                       [&](const auto& one) { return one.at <= Steady::now(); });
          });
        }
        continue;
      }
    }
    for (const WorkerPtr& worker : to_ping) ping(*worker);
    forget_again(stale);
    for (const WorkerPtr& worker : ending) (void)try_remove(worker, quit);
    if (task) reconnect(*task, quit);
  }
}

// Breaks the connection to an agent that does not answer.
void Fleet::ping(Worker& worker) {
  std::shared_ptr<AgentClient> client;
  {
    const std::scoped_lock lock(mutex_);
    client = worker.client;
  }
  if (!client) return;
  try {
    if (!client->is_answering()) return client->close();
  } catch (const Error&) {  // on_broken() handles it
    return;
  }
  const std::scoped_lock lock(mutex_);
  worker.forgotten_before = std::exchange(worker.forgotten, {});
}

void Fleet::forget_again(const std::vector<std::pair<WorkerPtr, std::string>>& stale) {
  for (const auto& [worker, id] : stale) {
    std::shared_ptr<AgentClient> client;
    {
      const std::scoped_lock lock(mutex_);
      if (worker->has_forgotten(id)) client = worker->client;
    }
    try {
      if (client) client->send(agent::Forget{.ids = {id}});
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the agent names the attempt after the next
                              // connection
    }
  }
}

// Returns the workers that have to end, and sets their state.
std::vector<Fleet::WorkerPtr> Fleet::to_end(Steady::time_point now) {
  std::vector<WorkerPtr> ending;
  for (const auto& [key, worker] : workers_) {
    if (worker->state == Worker::State::over && worker->is_own && worker->attempts.empty() &&
        now >= worker->remove_at)
      ending.push_back(worker);
    if (worker->state != Worker::State::connected || !worker->is_own) continue;
    const combu::Worker& limits = worker->limits;
    if ((limits.trials_max > 0 && worker->begun >= limits.trials_max) ||
        (limits.age_max > Seconds(0) && now - worker->created_at >= limits.age_max))
      worker->is_retiring = true;
    if (!worker->attempts.empty()) continue;
    const bool gives_up_claim = !worker->slots.empty() && now - worker->idle_since >= k_claim_idle;
    if (!worker->is_retiring && !gives_up_claim && now - worker->idle_since < limits.idle) continue;
    worker->state = Worker::State::over;
    ending.push_back(worker);
  }
  return ending;
}

void Fleet::reconnect_soon(const WorkerPtr& worker) {
  const auto now = Steady::now();
  reconnections_.push_back({.worker = worker, .at = now, .give_up_at = now + k_reconnect_max});
}

// Connects again, or finds out that the worker has ended. If the agent does not answer for a time, removes
// the container: only then its attempts count as lost.
void Fleet::reconnect(Reconnection& task, const std::stop_token& quit) {
  const WorkerPtr& worker = task.worker;
  {
    const std::scoped_lock lock(mutex_);
    if (worker->state == Worker::State::over) return;
  }
  bool may_remove = false;
  try {
    if (take_end(worker, quit)) return;
    {
      const std::scoped_lock lock(mutex_);
      may_remove = worker->is_own && Steady::now() >= task.give_up_at;
      if (worker->state != Worker::State::broken) return;  // connected, or another thread connects
    }
    return connect(worker, quit);
  } catch (const Error& error) {
    if (quit.stop_requested()) return;
    if (may_remove && try_remove_container(*worker, quit))
      return end_attempts(*worker,
                          fmt::format("the agent of its worker does not answer: {}", error.message()));
  }
  task.pause = std::min(task.pause * 2, k_reconnect_pause_max);
  task.at = Steady::now() + std::chrono::duration_cast<Steady::duration>(task.pause);
  const std::scoped_lock lock(mutex_);
  reconnections_.push_back(std::move(task));
}

}  // namespace combu::workers
