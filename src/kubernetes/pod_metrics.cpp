#include "kubernetes/pod_metrics.hpp"

#include <utility>

#include "combu/json.hpp"
#include "kubernetes/names.hpp"
#include "kubernetes/quota.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds k_metrics_pause{10};
constexpr std::chrono::seconds k_no_metrics_pause{60};

// Returns the sum over the containers of a Pod.
double sum_of(const json& metrics, const char* resource) {
  double sum = 0;
  const json& containers = member_of(metrics, "containers");
  if (!containers.is_array()) return 0;
  for (const json& container : containers)
    sum += parse_quantity(text_of(container, {"usage", resource})).value_or(0);
  return sum;
}

}  // namespace

std::optional<Usage> PodMetrics::find(const std::string& pod, const std::stop_token& stop) {
  const std::scoped_lock lock(mutex_);
  if (std::chrono::steady_clock::now() >= next_) renew(stop);
  const auto sample = samples_.find(pod);
  return sample == samples_.end() ? std::nullopt : std::optional(sample->second.usage);
}

void PodMetrics::renew(const std::stop_token& stop) {
  std::map<std::string, Sample> samples;
  const auto add = [&](const json& metrics) {
    const std::string name(text_of(metrics, {"metadata", "name"}));
    const auto at = parse_timestamp(text_of(metrics, "timestamp"));
    if (name.empty() || !at) return;
    Sample sample{*at, {Bytes{static_cast<std::int64_t>(sum_of(metrics, "memory"))}, Seconds(0)}};
    const auto before = samples_.find(name);
    if (before != samples_.end())
      sample.usage.cpu = before->second.usage.cpu + sum_of(metrics, "cpu") * Seconds(*at - before->second.at);
    samples.insert_or_assign(name, sample);
  };
  try {
    objects_.list(
        k_pod_metrics, {.labels = k_run}, add, [&] { samples.clear(); }, stop);
    samples_ = std::move(samples);
    next_ = std::chrono::steady_clock::now() + k_metrics_pause;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) throw;
    next_ = std::chrono::steady_clock::now() + k_no_metrics_pause;
  }
}

}  // namespace combu::kubernetes
