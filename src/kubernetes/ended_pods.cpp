#include "kubernetes/ended_pods.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <utility>

namespace combu::kubernetes {
namespace {

constexpr std::size_t k_deletions_in_flight = 4;
constexpr std::chrono::seconds k_failure_pause{1};   // after a failure
constexpr std::chrono::seconds k_last_wait_max{30};  // of the destructor

}  // namespace

EndedPods::~EndedPods() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void EndedPods::remove(std::vector<std::string> names) {
  {
    const std::scoped_lock lock(mutex_);
    std::ranges::move(names, std::back_inserter(names_));
    if (!thread_.joinable()) thread_ = std::jthread([this] { work(); });
  }
  changed_.notify_all();
}

void EndedPods::work() {
  auto last_success = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !names_.empty() || is_ending_; });
    if (names_.empty()) return;
    std::vector<std::string> names = std::exchange(names_, {});
    const std::size_t count = names.size();
    lock.unlock();
    names = remove_all(names);
    lock.lock();
    const auto now = std::chrono::steady_clock::now();
    if (names.size() < count) last_success = now;
    if (names.empty()) continue;
    if (is_ending_ && now - last_success > k_last_wait_max) return;
    names_.insert(names_.end(), names.begin(), names.end());
    changed_.wait_for(lock, k_failure_pause, [] { return false; });
  }
}

std::vector<std::string> EndedPods::remove_all(const std::vector<std::string>& names) {
  std::mutex mutex;
  std::vector<std::string> left;
  in_parallel(names.size(), k_deletions_in_flight, [&](std::size_t i) {
    try {
      objects_.remove(k_pods, names[i], std::nullopt, {}, {});
    } catch (const Error& error) {
      // A refusal would be repeated, for example because the user may not delete Pods.
      if (error.kind() != ErrorKind::unavailable && error.kind() != ErrorKind::timeout) return;
      const std::scoped_lock lock(mutex);
      left.push_back(names[i]);
    }
  });
  return left;
}

}  // namespace combu::kubernetes
