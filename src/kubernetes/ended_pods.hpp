#pragma once
// Deletes ended Pods in the background.

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "kubernetes/objects.hpp"

namespace combu::kubernetes {

// A thread that deletes the Pods of attempts whose ends and logs are stored. Safe for many threads. The
// destructor waits until the Pods are deleted. It begins no request later than about 30 s after the last
// success. Pods that cannot be deleted stay until `combu kill`.
class EndedPods {
 public:
  // `objects` must outlive this object.
  explicit EndedPods(Objects& objects) : objects_(objects) {}
  ~EndedPods();
  EndedPods(const EndedPods&) = delete;
  EndedPods& operator=(const EndedPods&) = delete;

  // Adds the Pods of attempts, and returns at once.
  void remove(const std::vector<Key>& attempts);

 private:
  void work();
  // Deletes Pods until the server does not answer. Returns the attempts whose Pods are not deleted.
  [[nodiscard]] std::vector<Key> remove_all(const std::vector<Key>& attempts);
  // Returns false if the server did not answer.
  [[nodiscard]] bool remove_batch(const RunId& run, const std::vector<std::string>& trials, int attempt);

  Objects& objects_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Key> attempts_;
  bool is_ending_ = false;
  std::jthread thread_;  // started by the first call of remove()
};

}  // namespace combu::kubernetes
