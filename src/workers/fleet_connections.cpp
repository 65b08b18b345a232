// The connections of Fleet to agents, and the events that arrive over them.

#include <utility>

#include "workers/fleet.hpp"

namespace combu::workers {
namespace {

constexpr std::chrono::seconds k_answer_max{10};

}  // namespace

void Fleet::connect(const WorkerPtr& worker, const std::stop_token& stop) {
  std::shared_ptr<AgentClient> old;
  {
    const std::scoped_lock lock(mutex_);
    old = std::exchange(worker->client, nullptr);
    worker->state = Worker::State::creating;
    worker->is_listed = false;
    for (const auto& [id, attempt] : worker->attempts) attempt->is_listed = false;
  }
  old.reset();
  std::shared_ptr<AgentClient> client;
  try {
    client = std::make_shared<AgentClient>(
        engine_.exec(worker->key, {std::string(k_program), "join", std::string(k_folder)}, stop),
        worker->key.trial, events_of(worker));
    client->begin();
  } catch (...) {
    const std::scoped_lock lock(mutex_);
    worker->state = Worker::State::broken;
    throw;
  }
  std::string why;
  {
    std::unique_lock lock(mutex_);
    const auto is_settled = [&] { return worker->is_listed || worker->state == Worker::State::broken; };
    const bool is_in_time = changed_.wait_for(lock, stop, k_answer_max, is_settled);
    if (worker->is_listed && worker->state == Worker::State::creating) {
      worker->client = std::move(client);
      worker->state = Worker::State::connected;
      for (const auto& [id, attempt] : worker->attempts) attempt->changed.notify_all();
      lock.unlock();
      changed_.notify_all();
      return;
    }
    worker->state = Worker::State::broken;
    why = is_in_time ? worker->broken_why : "the agent of the worker does not answer";
  }
  client.reset();  // joins its thread, without the lock
  throw Error(stop.stop_requested() ? ErrorKind::cancelled : ErrorKind::unavailable, worker->key.trial, why);
}

AgentEvents Fleet::events_of(const WorkerPtr& worker) {
  const std::weak_ptr<Worker> weak = worker;
  const auto locked = [this, weak](const auto& body) {
    const WorkerPtr it = weak.lock();
    if (!it) return;
    const std::scoped_lock lock(mutex_);
    body(*it);
  };
  return {
      .on_welcome =
          [=, this](agent::Welcome&& welcome) { locked([&](Worker& it) { take_welcome(it, welcome); }); },
      .on_started =
          [=, this](agent::Started&& started) { locked([&](Worker& it) { take_started(it, started); }); },
      .on_refused =
          [=, this](agent::Refused&& refused) { locked([&](Worker& it) { take_refused(it, refused); }); },
      .on_ended =
          [=, this](agent::Ended&& ended) { locked([&](Worker& it) { take_ended(it, std::move(ended)); }); },
      .on_listed =
          [=, this] {
            locked([&](Worker& it) { take_listed(it); });
            changed_.notify_all();
          },
      .on_broken =
          [=, this](const std::string& why) {
            const WorkerPtr it = weak.lock();
            if (!it) return;
            {
              const std::scoped_lock lock(mutex_);
              if (it->state == Worker::State::over) return;
              const bool was_connected = it->state == Worker::State::connected;
              it->state = Worker::State::broken;
              it->broken_why = why;
              if (was_connected) reconnect_soon(it);
            }
            changed_.notify_all();
          }};
}

void Fleet::take_welcome(Worker& worker, const agent::Welcome& welcome) {
  if (!worker.boot.empty() && worker.boot != welcome.boot)
    for (const auto& [id, attempt] : worker.attempts)
      if (attempt->is_alive() && attempt->state != Attempt::State::reserved)
        lose(worker, *attempt, "its worker was restarted");
  worker.boot = welcome.boot;
  if (!welcome.note.empty()) worker.note = parse_note(welcome.note);
}

Attempt* Fleet::attempt_of(Worker& worker, const std::string& id) {
  const auto found = worker.attempts.find(id);
  if (found != worker.attempts.end()) return found->second.get();
  if (worker.has_forgotten(id)) {
    stale_.emplace_back(worker.shared_from_this(), id);
    return nullptr;
  }
  const auto key = key_of(worker.key.run, id);
  if (!key) return nullptr;
  const Found added =
      add_attempt(worker.shared_from_this(), *key, divided(worker.slots, worker.note.concurrency));
  return added.attempt.get();
}

void Fleet::take_started(Worker& worker, const agent::Started& started) {
  Attempt* attempt = attempt_of(worker, started.id);
  if (attempt == nullptr) return;
  attempt->is_listed = true;
  attempt->began_at = instant_of(started.at);
  attempt->spawn = std::chrono::nanoseconds(started.spawn_ns);
  attempt->scratch = started.scratch;
  if (attempt->state == Attempt::State::running || attempt->state == Attempt::State::ended) return;
  attempt->state = Attempt::State::running;
  attempt->changed.notify_all();
  publish(worker, *attempt);
}

void Fleet::take_refused(Worker& worker, const agent::Refused& refused) {
  const auto found = worker.attempts.find(refused.id);
  if (found == worker.attempts.end()) return;
  found->second->refused = refused;
  found->second->state = Attempt::State::refused;
  found->second->changed.notify_all();
}

void Fleet::take_ended(Worker& worker, agent::Ended&& ended) {
  Attempt* attempt = attempt_of(worker, ended.id);
  if (attempt == nullptr) return;
  attempt->is_listed = true;
  if (attempt->state == Attempt::State::ended) return;
  attempt->ended = std::move(ended);
  attempt->state = Attempt::State::ended;
  attempt->changed.notify_all();
  publish(worker, *attempt);
}

void Fleet::take_listed(Worker& worker) {
  for (const auto& [id, attempt] : worker.attempts) {
    if (attempt->is_listed) continue;
    if (attempt->state == Attempt::State::running)
      lose(worker, *attempt, "its worker does not know it any more");
    if (attempt->state == Attempt::State::sent) {
      attempt->state = Attempt::State::reserved;
      attempt->changed.notify_all();
    }
  }
  worker.is_listed = true;
}

void Fleet::lose(Worker& worker, Attempt& attempt, const std::string& why) {
  attempt.lost = why;
  attempt.lost_at = real_clock().now();
  attempt.state = Attempt::State::ended;
  attempt.changed.notify_all();
  publish(worker, attempt);
}

void Fleet::publish(const Worker& worker, const Attempt& attempt) {
  const Observation seen = observation_of(worker, attempt);
  for (Subscription* subscription : subscriptions_) subscription->push_selected(seen);
}

void Fleet::subscribe(Subscription& subscription) {
  const std::scoped_lock lock(mutex_);
  subscriptions_.push_back(&subscription);
}

void Fleet::unsubscribe(Subscription& subscription) {
  const std::scoped_lock lock(mutex_);
  std::erase(subscriptions_, &subscription);
}

}  // namespace combu::workers
