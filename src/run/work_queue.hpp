#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace combu {

// A queue for threads, which take the items in the order of arrival. All functions may be called from
// any thread.
//
// A push wakes one thread. If more items remain after a thread has taken an item, the thread wakes the next
// thread before it processes its item. Therefore no item waits for a slow thread while another thread is
// idle. The queue wakes one thread after another, not all at once: waking a thread may take longer than
// processing an item. So the threads that are awake often take all items before a woken thread begins.
template <class Item>
class WorkQueue {
 public:
  void push(Item item) {
    std::unique_lock lock(mutex_);
    items_.push_back(std::move(item));
    wake_next(lock);
  }
  void push_all(std::vector<Item> items) {
    std::unique_lock lock(mutex_);
    std::ranges::move(items, std::back_inserter(items_));
    wake_next(lock);
  }

  // Blocks until the queue has an item, and removes and returns the item. Returns nullopt once the queue is
  // closed.
  std::optional<Item> pop() {
    std::unique_lock lock(mutex_);
    if (!await_items(lock)) return std::nullopt;
    std::optional<Item> first(take_first());
    wake_next(lock);
    return first;
  }

  // Blocks until the queue has an item. Removes and returns the first items, at most `count_max`. Returns no
  // items once the queue is closed.
  std::vector<Item> pop_up_to(std::size_t count_max) {
    std::unique_lock lock(mutex_);
    std::vector<Item> first;
    if (!await_items(lock)) return first;
    for (std::size_t left = std::min(count_max, items_.size()); left > 0; --left)
      first.push_back(take_first());
    wake_next(lock);
    return first;
  }

  // Makes all present and future calls of pop() return nullopt. The remaining items are not returned.
  void close() {
    {
      const std::scoped_lock lock(mutex_);
      is_closed_ = true;
    }
    filled_.notify_all();
  }

 private:
  // Returns false if the queue is closed.
  bool await_items(std::unique_lock<std::mutex>& lock) {
    while (items_.empty() && !is_closed_) {
      ++sleepers_;
      filled_.wait(lock);
      --sleepers_;
      is_waking_ = false;
    }
    return !is_closed_;
  }

  Item take_first() {
    Item first = std::move(items_.front());
    items_.pop_front();
    return first;
  }

  // Each operation must call wake_next() last. wake_next() unlocks before it notifies, because otherwise the
  // woken thread would wait for the lock.
  void wake_next(std::unique_lock<std::mutex>& lock) {
    if (items_.empty() || sleepers_ == 0 || is_waking_) return;
    is_waking_ = true;
    lock.unlock();
    filled_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<Item> items_;
  std::size_t sleepers_ = 0;  // waiting threads, including a thread that is being woken
  bool is_waking_ = false;    // true if a thread was woken and has not checked the items yet
  bool is_closed_ = false;
};

}  // namespace combu
