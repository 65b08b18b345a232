#pragma once
// The threads that keep workers: they open broken connections again, end idle workers, and send messages for
// which no other thread waits.

#include <chrono>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "workers/registry.hpp"
#include "workers/worker.hpp"

namespace combu::workers {

// Works on all workers in `registry`, which must outlive the keeper. The destructor joins the threads.
class Keeper {
 public:
  // The keeper looks this often for workers that have to end.
  static constexpr std::chrono::milliseconds k_pause{200};

  explicit Keeper(Registry& registry);
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

 private:
  using Tasks = std::vector<std::function<void()>>;
  using Lock = std::unique_lock<std::mutex>;

  void work(const std::stop_token& quit, const std::function<Tasks(Lock&)>& take);
  // Each returns the tasks of one thread, and waits with `lock` if there are none.
  [[nodiscard]] Tasks connections(Lock& lock, const std::stop_token& quit);
  [[nodiscard]] Tasks ends(Lock& lock, const std::stop_token& quit);
  [[nodiscard]] Tasks messages(Lock& lock, const std::stop_token& quit, Steady::time_point& ping_at);
  [[nodiscard]] Steady::time_point next_reconnection() const;

  Registry& registry_;
  // An agent that does not answer or does not read delays only `connections_`.
  std::jthread ends_;
  std::jthread connections_;
  std::jthread messages_;
};

}  // namespace combu::workers
