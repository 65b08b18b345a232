#include "workers/keeper.hpp"

#include <algorithm>
#include <utility>

namespace combu::workers {
namespace {

constexpr std::chrono::milliseconds k_pause{200};
constexpr std::chrono::seconds k_ping_every{15};
constexpr std::size_t k_tasks_in_parallel = 8;

}  // namespace

Keeper::Keeper(Registry& registry)
    : registry_(registry),
      ends_([this](const std::stop_token& quit) { end_and_ping(quit); }),
      connections_([this](const std::stop_token& quit) { open_connections(quit); }) {}

Keeper::~Keeper() = default;

void Keeper::open_connections(const std::stop_token& quit) {
  while (!quit.stop_requested()) {
    Tasks tasks;
    {
      std::unique_lock lock(registry_.mutex);
      tasks = to_connect(quit);
      if (tasks.empty()) {
        const auto next = next_reconnection();
        const auto comes_earlier = [&] { return next_reconnection() < next; };
        if (next == Worker::Reconnection::k_under_way) {
          registry_.changed.wait(lock, quit, comes_earlier);
        } else {
          registry_.changed.wait_until(lock, quit, next, comes_earlier);
        }
      }
    }
    in_parallel(tasks.size(), k_tasks_in_parallel, [&](std::size_t i) { tasks[i](); });
  }
}

Steady::time_point Keeper::next_reconnection() const {
  auto next = Worker::Reconnection::k_under_way;
  for (const auto& [key, worker] : registry_.workers)
    if (worker->reconnection) next = std::min(next, worker->reconnection->at);
  return next;
}

Keeper::Tasks Keeper::to_connect(const std::stop_token& quit) {
  Tasks tasks;
  const auto now = Steady::now();
  for (const auto& [key, worker] : registry_.workers) {
    if (!worker->reconnection || worker->reconnection->at > now) continue;
    worker->reconnection->at = Worker::Reconnection::k_under_way;
    tasks.emplace_back([worker, &quit] { worker->reconnect(quit); });
  }
  return tasks;
}

void Keeper::end_and_ping(const std::stop_token& quit) {
  while (!quit.stop_requested()) {
    Tasks tasks;
    {
      std::unique_lock lock(registry_.mutex);
      tasks = to_end_and_ping(quit);
      if (tasks.empty() && registry_.workers.empty()) {
        registry_.changed.wait(lock, quit, [&] { return !registry_.workers.empty(); });
      } else if (tasks.empty()) {
        registry_.changed.wait_for(lock, quit, k_pause, [] { return false; });
      }
    }
    in_parallel(tasks.size(), k_tasks_in_parallel, [&](std::size_t i) { tasks[i](); });
  }
}

Keeper::Tasks Keeper::to_end_and_ping(const std::stop_token& quit) {
  Tasks tasks;
  const auto now = Steady::now();
  const bool is_ping_due = now - pinged_at_ > k_ping_every;
  if (is_ping_due) pinged_at_ = now;
  for (const auto& [key, worker] : registry_.workers) {
    if (worker->has_to_end(now)) {
      worker->state = Worker::State::over;
      tasks.emplace_back([worker, &quit] { (void)worker->try_remove(quit); });
      continue;
    }
    if (!worker->stale.empty())
      tasks.emplace_back([worker, ids = std::exchange(worker->stale, {})] { worker->send_forget(ids); });
    if (is_ping_due && worker->state == Worker::State::connected)
      tasks.emplace_back([worker] { worker->ping(); });
  }
  return tasks;
}

}  // namespace combu::workers
