#pragma once
// The changes of attempts in workers, for each call of watch().

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "combu/engine.hpp"

namespace combu::workers {

// True if the selector selects the attempt.
[[nodiscard]] inline bool selects(const Selector& selector, const Observation& seen) {
  if (!selector.experiment.empty() && selector.experiment != seen.experiment) return false;
  if (!selector.file.empty() && selector.file != seen.file) return false;
  if (selector.run && *selector.run != seen.key.run) return false;
  return selector.trials.empty() ||
         std::ranges::find(selector.trials, seen.key.trial) != selector.trials.end();
}

// The changes that one call of watch() has not passed on yet. Thread-safe.
class Subscription {
 public:
  explicit Subscription(Selector selector) : selector_(std::move(selector)) { containers_.trials.clear(); }

  // True if watch() gets the changes of the container, in which selected attempts may be.
  [[nodiscard]] bool watches(const Observation& container) const { return selects(containers_, container); }

  // Adds the change if the selector selects the attempt.
  void push(const Observation& seen) {
    if (!selects(selector_, seen)) return;
    {
      const std::scoped_lock lock(mutex_);
      changes_.push_back(seen);
    }
    changed_.notify_one();
  }
  // No further changes follow those that were pushed.
  void end() {
    {
      const std::scoped_lock lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_one();
  }
  // Blocks until there are changes, and removes and returns them. Returns an empty list after end().
  [[nodiscard]] std::vector<Observation> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !changes_.empty() || is_over_; });
    return std::exchange(changes_, {});
  }

 private:
  Selector selector_;
  Selector containers_ = selector_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Observation> changes_;
  bool is_over_ = false;
};

// Implements Engine::watch(): passes on the changes of the subscription and those that `watch_below` passes
// to its argument, one at a time. Blocks until `watch_below` returns. `unsubscribe` is called once, at the
// end.
void watch_with(
    Subscription& subscription, const std::function<void(const Change&)>& on_change,
    const std::stop_token& stop,
    const std::function<void(const std::function<void(const Change&)>&, const std::stop_token&)>& watch_below,
    const std::function<void()>& unsubscribe);

}  // namespace combu::workers
