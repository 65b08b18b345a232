#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace combu {

// Many threads post, one takes all that has come.
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
    // Whoever takes has been woken for those before it.
    if (was_empty) filled_.notify_one();
  }

  // Blocks until there is something, or `patience` is over; then empties the inbox into `taken` (whose memory
  // is used again).
  void take(std::vector<Item>& taken, std::chrono::milliseconds patience) {
    // A flood's memory is given back.
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
