#pragma once
// A thread pool for uploads. The number of threads and the bytes in the queue are bounded.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace combu::outputs {

class Uploads {
 public:
  Uploads() = default;
  // All uploads must have ended before the destructor is called.
  ~Uploads() {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;

  // Queues an upload. Blocks while too many uploads or bytes are queued. `upload` holds `size` bytes in
  // memory and must not throw.
  void add(std::size_t size, std::function<void()> upload) {
    std::unique_lock lock(mutex_);
    changed_.wait(
        lock, [&] { return under_way_ == 0 || (size_ + size <= k_size_max && under_way_ < k_count_max); });
    size_ += size;
    ++under_way_;
    waiting_.push_back({size, std::move(upload)});
    if (under_way_ > threads_.size() && threads_.size() < k_width) threads_.emplace_back([this] { work(); });
    changed_.notify_all();
  }

 private:
  static constexpr std::size_t k_width = 8;
  static constexpr std::size_t k_count_max = 64;
  static constexpr std::size_t k_size_max = std::size_t{96} << 20U;

  struct Upload {
    std::size_t size = 0;
    std::function<void()> carry_out;
  };

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !waiting_.empty() || ended_; });
      if (waiting_.empty()) return;
      Upload upload = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      upload.carry_out();
      upload.carry_out = nullptr;  // frees the upload's bytes
      lock.lock();
      size_ -= upload.size;
      --under_way_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Upload> waiting_;
  std::size_t size_ = 0;
  std::size_t under_way_ = 0;
  bool ended_ = false;
  // This member must be last, because the threads must end before the other members are destroyed.
  std::vector<std::jthread> threads_;
};

}  // namespace combu::outputs
