#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <utility>

#include "combu/base.hpp"

namespace combu {
namespace {

class RealClock final : public Clock {
 public:
  Instant now() override { return std::chrono::system_clock::now(); }

  void wait(Seconds duration, std::stop_token stop) override {
    // An upper limit far below 292 years, from which on the clock's 64-bit count of nanoseconds overflows.
    constexpr Seconds k_longest{std::chrono::hours(24 * 365)};
    const auto until = std::chrono::steady_clock::now() +
                       std::chrono::duration_cast<std::chrono::nanoseconds>(std::min(duration, k_longest));
    std::mutex mutex;
    std::condition_variable_any woken;
    std::unique_lock lock(mutex);
    woken.wait_until(lock, std::move(stop), until, [] { return false; });
  }
};

}  // namespace

Clock& real_clock() {
  static RealClock clock;
  return clock;
}

}  // namespace combu
