#pragma once
// Reads the metrics file (`metrics.file`) that an attempt has written.

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
  std::string fault;  // text for the user: why metrics are missing; empty: no metrics are missing
};

// Maximum size of a metrics file in bytes. Larger files would take long to read, and the points stay in
// memory until combu stores them.
inline constexpr Bytes k_metric_file_max{std::int64_t{256} << 20};

// Reads at most the first `size_max` bytes of `metrics.file`. A separate thread parses the file while the
// engine sends it. Blocks until the file is read. Throws the errors of Engine::copy_out().
[[nodiscard]] FileMetrics read_metric_file(Engine& engine, const Key& key, const Metrics& metrics,
                                           MetricLimits& limits, const std::stop_token& stop,
                                           Bytes size_max = k_metric_file_max);

}  // namespace combu::telemetry
