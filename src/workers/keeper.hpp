#pragma once
// The threads that keep workers: they open broken connections again, end idle workers, and send messages for
// which no other thread waits.

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
  void end_workers(const std::stop_token& quit);
  void send_messages(const std::stop_token& quit);
  [[nodiscard]] Steady::time_point next_reconnection() const;
  [[nodiscard]] Tasks to_connect(const std::stop_token& quit);
  [[nodiscard]] Tasks to_end(const std::stop_token& quit);
  [[nodiscard]] Tasks to_send(bool with_ping);

  Registry& registry_;
  std::jthread ends_;  // never waits for an agent
  // An agent that does not answer or does not read delays only these threads.
  std::jthread connections_;
  std::jthread messages_;
};

}  // namespace combu::workers
