#include "workers/keeper.hpp"

#include <algorithm>

namespace combu::workers {
namespace {

constexpr std::chrono::seconds k_ping_every{15};
constexpr std::chrono::seconds k_check_every{5};
constexpr std::size_t k_tasks_in_parallel = 8;

}  // namespace

Keeper::Keeper(Registry& registry)
    : registry_(registry),
      ends_(
          [this](const std::stop_token& quit) { work(quit, [&](Lock& lock) { return ends(lock, quit); }); }),
      connections_([this](const std::stop_token& quit) {
        work(quit, [&](Lock& lock) { return connections(lock, quit); });
      }),
      messages_([this, ping_at = Steady::now() + k_ping_every](const std::stop_token& quit) mutable {
        work(quit, [&](Lock& lock) { return messages(lock, quit, ping_at); });
      }) {}

Keeper::~Keeper() = default;

// Carries out the tasks that `take` returns, side by side, until the thread has to end. `take` waits if it
// has no tasks.
void Keeper::work(const std::stop_token& quit, const std::function<Tasks(Lock&)>& take) {
  while (!quit.stop_requested()) {
    Lock lock(registry_.mutex);
    const Tasks tasks = take(lock);
    lock.unlock();
    in_parallel(tasks.size(), k_tasks_in_parallel, [&](std::size_t i) { tasks[i](); });
  }
}

Steady::time_point Keeper::next_reconnection() const {
  auto next = Worker::Reconnection::k_under_way;
  for (const auto& [key, worker] : registry_.workers)
    if (worker->reconnection) next = std::min(next, worker->reconnection->at);
  return next;
}

Keeper::Tasks Keeper::connections(Lock& lock, const std::stop_token& quit) {
  Tasks tasks;
  const auto now = Steady::now();
  for (const auto& [key, worker] : registry_.workers) {
    if (!worker->reconnection || worker->reconnection->at > now) continue;
    worker->reconnection->at = Worker::Reconnection::k_under_way;
    tasks.emplace_back([worker, &quit] { worker->reconnect(quit); });
  }
  if (!tasks.empty()) return tasks;
  const auto next = next_reconnection();
  const auto comes_earlier = [&] { return next_reconnection() < next; };
  if (next == Worker::Reconnection::k_under_way) {
    registry_.changed.wait(lock, quit, comes_earlier);
  } else {
    registry_.changed.wait_until(lock, quit, next, comes_earlier);
  }
  return tasks;
}

Keeper::Tasks Keeper::ends(Lock& lock, const std::stop_token& quit) {
  Tasks tasks;
  const auto now = Steady::now();
  for (const auto& [key, worker] : registry_.workers) {
    if (worker->has_to_end(now)) {
      worker->become(Worker::State::over);
      tasks.emplace_back([worker, &quit] { (void)worker->try_remove(quit); });
    } else if (worker->state == Worker::State::connected && now >= worker->check_at) {
      worker->check_at = now + k_check_every;
      tasks.emplace_back([worker] { worker->close_if_silent(); });
    }
    if (worker->state == Worker::State::connected) worker->offer_places();
  }
  if (tasks.empty() && registry_.workers.empty()) {
    registry_.changed.wait(lock, quit, [&] { return !registry_.workers.empty(); });
  } else if (tasks.empty()) {
    registry_.changed.wait_for(lock, quit, k_pause, [] { return false; });
  }
  return tasks;
}

Keeper::Tasks Keeper::messages(Lock& lock, const std::stop_token& quit, Steady::time_point& ping_at) {
  const bool with_ping = Steady::now() >= ping_at;
  if (with_ping) ping_at = Steady::now() + k_ping_every;
  for (const auto& [key, worker] : registry_.workers)
    if (with_ping || worker->has_unsent()) worker->send_messages(with_ping);
  registry_.changed.wait_until(lock, quit, ping_at, [&] {
    return std::ranges::any_of(registry_.workers, [](const auto& one) { return one.second->has_unsent(); });
  });
  return {};
}

}  // namespace combu::workers
