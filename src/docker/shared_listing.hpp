#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "docker/api.hpp"

namespace combu::docker {

// Shares one listing among all callers that need a listing at about the same time. For a listing, an engine
// takes milliseconds for each container, and every start needs a listing of all containers. Safe for many
// threads.
class SharedListing {
 public:
  using Containers = std::vector<ContainerSummary>;

  // Returns a listing that this or another thread has requested since this call began. Blocks. Throws the
  // errors of `ask`.
  std::shared_ptr<const Containers> after_now(const std::function<Containers()>& ask) {
    std::unique_lock lock(mutex_);
    const std::uint64_t wanted = begun_ + 1;
    changed_.wait(lock, [&] { return !under_way_ || (last_ && last_number_ >= wanted); });
    if (last_ && last_number_ >= wanted) return last_;
    under_way_ = true;
    const std::uint64_t number = ++begun_;
    lock.unlock();
    std::shared_ptr<const Containers> containers;
    try {
      containers = std::make_shared<const Containers>(ask());
    } catch (...) {
      lock.lock();
      under_way_ = false;
      changed_.notify_all();
      throw;
    }
    lock.lock();
    under_way_ = false;
    last_ = containers;
    last_number_ = number;
    changed_.notify_all();
    return containers;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t begun_ = 0;
  bool under_way_ = false;
  std::shared_ptr<const Containers> last_;
  std::uint64_t last_number_ = 0;
};

}  // namespace combu::docker
