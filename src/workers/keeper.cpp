#include "workers/keeper.hpp"

#include <algorithm>

namespace combu::workers {
namespace {

constexpr std::chrono::milliseconds k_pause{200};
constexpr std::chrono::seconds k_ping_every{15};
constexpr std::chrono::seconds k_check_every{5};
constexpr std::size_t k_tasks_in_parallel = 8;

}  // namespace

Keeper::Keeper(Registry& registry)
    : registry_(registry),
      ends_([this](const std::stop_token& quit) { end_workers(quit); }),
      connections_([this](const std::stop_token& quit) { open_connections(quit); }),
      messages_([this](const std::stop_token& quit) { send_messages(quit); }) {}

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

void Keeper::end_workers(const std::stop_token& quit) {
  while (!quit.stop_requested()) {
    Tasks tasks;
    {
      std::unique_lock lock(registry_.mutex);
      tasks = to_end(quit);
      if (tasks.empty() && registry_.workers.empty()) {
        registry_.changed.wait(lock, quit, [&] { return !registry_.workers.empty(); });
      } else if (tasks.empty()) {
        registry_.changed.wait_for(lock, quit, k_pause, [] { return false; });
      }
    }
    in_parallel(tasks.size(), k_tasks_in_parallel, [&](std::size_t i) { tasks[i](); });
  }
}

Keeper::Tasks Keeper::to_end(const std::stop_token& quit) {
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
  }
  return tasks;
}

void Keeper::send_messages(const std::stop_token& quit) {
  Steady::time_point ping_at = Steady::now() + k_ping_every;
  while (!quit.stop_requested()) {
    Tasks tasks;
    {
      std::unique_lock lock(registry_.mutex);
      const bool is_ping_due = Steady::now() >= ping_at;
      if (is_ping_due) ping_at = Steady::now() + k_ping_every;
      tasks = to_send(is_ping_due);
      if (tasks.empty())
        registry_.changed.wait_until(lock, quit, ping_at, [&] {
          return std::ranges::any_of(registry_.workers,
                                     [](const auto& one) { return one.second->has_unsent(); });
        });
    }
    in_parallel(tasks.size(), k_tasks_in_parallel, [&](std::size_t i) { tasks[i](); });
  }
}

Keeper::Tasks Keeper::to_send(bool with_ping) {
  Tasks tasks;
  for (const auto& [key, worker] : registry_.workers)
    if (worker->has_unsent() || (with_ping && worker->state == Worker::State::connected))
      tasks.emplace_back([worker, with_ping] { worker->send_messages(with_ping); });
  return tasks;
}

}  // namespace combu::workers
