#pragma once
// The file of metrics that an attempt leaves.

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "combu/engine.hpp"
#include "combu/telemetry.hpp"
#include "telemetry/metrics.hpp"

namespace combu::telemetry {

struct FileMetrics {
  std::vector<LogBatch::Metric> metrics;
  std::string fault;  // why there are none, or not all, for a person
};

// Reading more would take long. The points that are kept are in memory until they are stored.
inline constexpr Bytes k_metric_file_max{std::int64_t{256} << 20};

// Reads `metrics.file` on a thread of its own, while the file comes, and no more of it than `size_max`.
// Throws Error as Engine::copy_out does.
[[nodiscard]] FileMetrics read_metric_file(Engine& engine, const Key& key, const Metrics& metrics,
                                           MetricLimits& limits, const std::stop_token& stop,
                                           Bytes size_max = k_metric_file_max);

}  // namespace combu::telemetry
