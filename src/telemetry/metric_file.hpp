#pragma once
// Reads the file of metrics that an attempt wrote.

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
  std::string fault;  // for the user: why metrics are missing; empty: none are missing
};

// Maximum size of a file of metrics. Reading more would take long, and the kept points are in memory until
// they are stored.
inline constexpr Bytes k_metric_file_max{std::int64_t{256} << 20};

// Reads at most `size_max` of `metrics.file`. A separate thread parses the file while the engine sends it.
// Blocks until all is read. Throws Error as Engine::copy_out does.
[[nodiscard]] FileMetrics read_metric_file(Engine& engine, const Key& key, const Metrics& metrics,
                                           MetricLimits& limits, const std::stop_token& stop,
                                           Bytes size_max = k_metric_file_max);

}  // namespace combu::telemetry
