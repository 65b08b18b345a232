#pragma once
// Publishes the successful trials of a run in the run's bucket, so that other users can reuse these trials.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "combu/reuse.hpp"

namespace combu {

// Publishes trials on a separate thread. If combu cannot publish a trial, other users run that trial
// themselves.
class Publisher {
 public:
  // `context` and `cache_index` must outlive the publisher.
  Publisher(const ReuseContext& context, SharedCacheIndex& cache_index)
      : context_(context), cache_index_(cache_index) {}
  // Waits until all trials are published, the server does not answer, or ReuseContext::stop requests a stop.
  ~Publisher();
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  // Queues a trial that has succeeded. Returns at once.
  void add(const Trial& trial);

 private:
  struct Success {
    const Trial* trial = nullptr;
    std::string hash;
    int attempt = 0;
  };

  void work();
  [[nodiscard]] std::vector<Success> successes_of(Record& record,
                                                  const std::vector<const Trial*>& trials) const;
  [[nodiscard]] bool put(const Success& success);
  // Blocks until trials are queued, and returns these trials. Returns no trials if no more will follow.
  [[nodiscard]] std::vector<const Trial*> next();

  const ReuseContext& context_;
  SharedCacheIndex& cache_index_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<const Trial*> waiting_;
  bool ended_ = false;
  std::size_t unpublished_ = 0;
  std::string fault_;
  std::thread thread_;
};

}  // namespace combu
