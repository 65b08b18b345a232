#include "kubernetes/ended_pods.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "kubernetes/names.hpp"

namespace combu::kubernetes {
namespace {

// One request deletes the Pods of many attempts, which takes the server two thirds of the time that a request
// for each Pod takes. The names of these trials have at most 6,300 characters in the URL.
constexpr std::size_t k_batch = 100;
constexpr std::chrono::milliseconds k_pause{200};    // collects the attempts of a batch
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

void EndedPods::remove(const std::vector<Key>& attempts) {
  {
    const std::scoped_lock lock(mutex_);
    attempts_.insert(attempts_.end(), attempts.begin(), attempts.end());
    if (!thread_.joinable()) thread_ = std::jthread([this] { work(); });
  }
  changed_.notify_all();
}

void EndedPods::work() {
  auto last_success = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !attempts_.empty() || is_ending_; });
    if (attempts_.empty()) return;
    changed_.wait_for(lock, k_pause, [this] { return is_ending_; });
    std::vector<Key> attempts = std::exchange(attempts_, {});
    const std::size_t count = attempts.size();
    lock.unlock();
    attempts = remove_all(attempts);
    lock.lock();
    const auto now = std::chrono::steady_clock::now();
    if (attempts.size() < count) last_success = now;
    if (attempts.empty()) continue;
    if (is_ending_ && now - last_success > k_last_wait_max) return;
    attempts_.insert(attempts_.end(), attempts.begin(), attempts.end());
    changed_.wait_for(lock, k_failure_pause, [] { return false; });
  }
}

std::vector<Key> EndedPods::remove_all(const std::vector<Key>& attempts) {
  std::map<std::pair<RunId, int>, std::vector<std::string>> trials;  // by run and number of the attempt
  for (const Key& key : attempts) trials[{key.run, key.attempt}].push_back(key.trial);
  std::vector<Key> left;
  for (const auto& [of, names] : trials) {
    const auto& [run, attempt] = of;
    for (std::size_t begin = 0; begin < names.size(); begin += k_batch) {
      const auto first = names.begin() + static_cast<std::ptrdiff_t>(begin);
      const std::vector<std::string> batch(
          first, first + static_cast<std::ptrdiff_t>(std::min(k_batch, names.size() - begin)));
      // After a failure, the other batches would wait for the same server.
      if (left.empty() && remove_batch(run, batch, attempt)) continue;
      for (const std::string& trial : batch) left.push_back({run, trial, attempt});
    }
  }
  return left;
}

bool EndedPods::remove_batch(const RunId& run, const std::vector<std::string>& trials, int attempt) {
  try {
    objects_.remove_selected(k_pods, {.labels = label_selector(run, trials, attempt), .fields = {}}, {});
    return true;
  } catch (const Error& error) {
    // A refusal would be repeated, for example because the user may not delete Pods.
    return error.kind() != ErrorKind::unavailable && error.kind() != ErrorKind::timeout;
  }
}

}  // namespace combu::kubernetes
