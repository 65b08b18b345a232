#pragma once
// The threads that keep workers: they open broken connections again, and end idle workers.

#include <chrono>
#include <functional>
#include <stop_token>
#include <thread>
#include <vector>

#include "workers/registry.hpp"
#include "workers/worker.hpp"

namespace combu::workers {

// Works on all workers in `registry`, which must outlive the keeper. The destructor joins the threads.
class Keeper {
 public:
  explicit Keeper(Registry& registry);
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

 private:
  using Tasks = std::vector<std::function<void()>>;

  void open_connections(const std::stop_token& quit);
  void end_and_ping(const std::stop_token& quit);
  [[nodiscard]] Steady::time_point next_reconnection() const;
  [[nodiscard]] Tasks to_connect(const std::stop_token& quit);
  [[nodiscard]] Tasks to_end_and_ping(const std::stop_token& quit);

  Registry& registry_;
  Steady::time_point pinged_at_ = Steady::now();  // used by one thread
  std::jthread ends_;
  // An agent that does not answer delays this thread only.
  std::jthread connections_;
};

}  // namespace combu::workers
