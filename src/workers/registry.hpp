#pragma once
// All workers that this process knows.

#include <algorithm>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "combu/engine.hpp"
#include "workers/subscriptions.hpp"

namespace combu::workers {

struct Worker;
using WorkerPtr = std::shared_ptr<Worker>;

struct Registry {
  explicit Registry(Engine& below) : engine(below) {}

  Engine& engine;                       // runs the containers of the workers
  std::mutex mutex;                     // guards the members below, and those of all workers and attempts
  std::condition_variable_any changed;  // notified when a worker is added, removed, or changes its state
  std::map<Key, WorkerPtr> workers;
  std::vector<Subscription*> subscriptions;

  // True if a call of watch() gets the changes of the worker's container. The caller holds the mutex.
  [[nodiscard]] bool is_watched(const Observation& container) const {
    return std::ranges::any_of(subscriptions, [&](const auto* one) { return one->watches(container); });
  }
  // Passes the observation of an attempt to each call of watch(). The caller holds the mutex.
  void publish(const Observation& seen) const {
    for (Subscription* subscription : subscriptions) subscription->push(seen);
  }
};

}  // namespace combu::workers
