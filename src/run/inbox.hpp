#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace combu {

// A queue with many writers and one reader. The reader takes all items at once.
template <class Item>
class Inbox {
 public:
  void post(Item item) {
    bool was_empty = false;
    {
      const std::scoped_lock lock(mutex_);
      was_empty = items_.empty();
      items_.push_back(std::move(item));
    }
    // If the inbox was not empty, an earlier post has already woken the reader.
    if (was_empty) filled_.notify_one();
  }

  // Blocks until there is an item, or until `patience` has passed. Replaces the content of `taken` with all
  // items, and reuses the memory of `taken`.
  void take(std::vector<Item>& taken, std::chrono::milliseconds patience) {
    // After a very large number of items, releases the memory of `taken`.
    if (taken.size() > k_kept_max) taken = {};
    taken.clear();
    std::unique_lock lock(mutex_);
    filled_.wait_for(lock, patience, [this] { return !items_.empty(); });
    taken.swap(items_);
  }

 private:
  static constexpr std::size_t k_kept_max = 4096;

  std::mutex mutex_;
  std::condition_variable filled_;
  std::vector<Item> items_;
};

}  // namespace combu
