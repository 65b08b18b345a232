#include "kubernetes/create_rate.hpp"

#include <algorithm>

namespace combu::kubernetes {
namespace {

constexpr double k_rate_min = 1;
constexpr double k_rate_max = 2000;
constexpr double k_growth = 1.1;  // for each quick answer
constexpr Seconds k_quick{0.5};
constexpr Seconds k_slow{2};
constexpr Seconds k_halving_pause{1};  // the answers of the requests in flight halve the rate only once

CreateRate::Moment later(CreateRate::Moment moment, Seconds duration) {
  return moment + std::chrono::duration_cast<CreateRate::Moment::duration>(duration);
}

}  // namespace

CreateRate::Moment CreateRate::reserve(Moment now) {
  const std::scoped_lock lock(mutex_);
  const Moment at = std::max(now, next_);
  next_ = later(at, Seconds(1 / rate_));
  return at;
}

void CreateRate::wait(const std::stop_token& stop) {
  const Moment now = std::chrono::steady_clock::now();
  if (const Moment at = reserve(now); at > now) {
    std::unique_lock lock(mutex_);
    (void)stopped_.wait_until(lock, stop, at, [] { return false; });
  }
  if (stop.stop_requested()) throw Error(ErrorKind::cancelled, "", "cancelled");
}

void CreateRate::answered(Seconds took, Moment now) {
  const std::scoped_lock lock(mutex_);
  if (took <= k_quick) rate_ = std::min(rate_ * k_growth, k_rate_max);
  if (took >= k_slow) halve(now);
}

void CreateRate::overloaded(Seconds retry_after, Moment now) {
  const std::scoped_lock lock(mutex_);
  halve(now);
  next_ = std::max(next_, later(now, retry_after));
}

void CreateRate::halve(Moment now) {
  if (now < later(halved_, k_halving_pause)) return;
  halved_ = now;
  rate_ = std::max(rate_ / 2, k_rate_min);
}

}  // namespace combu::kubernetes
