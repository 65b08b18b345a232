#pragma once
// The rate at which combu creates Pods.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>

#include "combu/base.hpp"

namespace combu::kubernetes {

// Limits the rate of requests by the server's answers. The rate grows while the server answers quickly, and
// is halved after a slow answer or a refusal for overload. Safe for many threads.
class CreateRate {
 public:
  using Moment = std::chrono::steady_clock::time_point;

  // Reserves the moment at which the next request may be sent, and returns it.
  [[nodiscard]] Moment reserve(Moment now);
  // Blocks until reserve() permits a request. Throws Error(cancelled) if `stop` is requested.
  void wait(const std::stop_token& stop);
  // Notes the duration of a successful request.
  void answered(Seconds took, Moment now);
  // Notes that the server was overloaded. No request is sent before `retry_after` has passed.
  void overloaded(Seconds retry_after, Moment now);

 private:
  void halve(Moment now);

  std::mutex mutex_;
  std::condition_variable_any stopped_;
  double rate_ = 100;  // requests a second; at 20, a cluster was half idle for the first second
  Moment next_{};      // when the next request may be sent
  Moment halved_{};    // when the rate was last halved
};

}  // namespace combu::kubernetes
