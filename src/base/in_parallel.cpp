#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "combu/base.hpp"

namespace combu {
namespace {

class Loop {
 public:
  Loop(std::size_t count, const std::function<void(std::size_t)>& body) : count_(count), body_(body) {}

  void work() {
    while (!failed_.load()) {
      const std::size_t index = next_.fetch_add(1);
      if (index >= count_) return;
      try {
        body_(index);
      } catch (...) {
        const std::scoped_lock lock(mutex_);
        if (!first_failure_) first_failure_ = std::current_exception();
        failed_.store(true);
      }
    }
  }

  // Rethrows the first exception of a call. The caller must call rethrow() only after all workers have ended.
  void rethrow() const {
    if (first_failure_) std::rethrow_exception(first_failure_);
  }

 private:
  std::size_t count_;
  const std::function<void(std::size_t)>& body_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr first_failure_;
};

}  // namespace

void in_parallel(std::size_t count, std::size_t width, const std::function<void(std::size_t)>& body) {
  Loop loop(count, body);
  {
    std::vector<std::jthread> others;
    const std::size_t threads = std::min(count, std::max<std::size_t>(width, 1));
    try {
      for (std::size_t i = 1; i < threads; ++i) others.emplace_back([&loop] { loop.work(); });
    } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): fewer threads do the same work
    }
    loop.work();
  }
  loop.rethrow();
}

}  // namespace combu
