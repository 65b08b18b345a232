#pragma once
// The resource usage of Pods: https://kubernetes.io/docs/reference/external-api/metrics.v1beta1/

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "combu/engine.hpp"
#include "kubernetes/objects.hpp"

namespace combu::kubernetes {

// Asks for the usage of all of combu's Pods with one request, at most every ten seconds. The metrics API
// reports the CPU usage of a moment; find() returns its sum over time, which is an estimate. Safe for many
// threads.
class PodMetrics {
 public:
  // `objects` must outlive this object.
  explicit PodMetrics(Objects& objects) : objects_(objects) {}

  // Returns the usage of a Pod; nullopt if the cluster has no metrics API, or no metrics of the Pod.
  [[nodiscard]] std::optional<Usage> find(const std::string& pod, const std::stop_token& stop);

 private:
  struct Sample {
    Instant at;  // end of the time that the sample covers
    Usage usage;
  };
  void renew(const std::stop_token& stop);

  Objects& objects_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point next_{};  // when the next request may be sent
  std::map<std::string, Sample> samples_;         // by name of the Pod
};

}  // namespace combu::kubernetes
