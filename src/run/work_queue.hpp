#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

namespace combu {

// Items for worker threads, which take them in the order in which they were pushed. Safe from any thread.
template <class Item>
class WorkQueue {
 public:
  void push(Item item) {
    {
      const std::scoped_lock lock(mutex_);
      items_.push_back(std::move(item));
    }
    filled_.notify_one();
  }

  // Blocks until there is an item; nullopt once `stop` is set.
  std::optional<Item> pop(const std::stop_token& stop) {
    std::vector<Item> first = pop_up_to(1, stop);
    return first.empty() ? std::nullopt : std::optional(std::move(first.front()));
  }

  // Blocks until there is an item, and takes as many as there are, up to `count_max`; none once `stop` is
  // set.
  std::vector<Item> pop_up_to(std::size_t count_max, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    std::vector<Item> first;
    if (!filled_.wait(lock, stop, [this] { return !items_.empty(); })) return first;
    for (std::size_t left = std::min(count_max, items_.size()); left > 0; --left) {
      first.push_back(std::move(items_.front()));
      items_.pop_front();
    }
    return first;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any filled_;
  std::deque<Item> items_;
};

}  // namespace combu
