#pragma once
// The file of metrics that an attempt leaves.

#include <stop_token>
#include <string>
#include <vector>

#include "combu/engine.hpp"
#include "combu/telemetry.hpp"
#include "telemetry/metrics.hpp"

namespace combu::telemetry {

struct FileMetrics {
  std::vector<LogBatch::Metric> metrics;
  std::string fault;  // why there are none, for a person
};

// `path` as in Metrics::file. Throws Error as Engine::copy_out does, and `refused` where there is no room for
// a copy of the file.
[[nodiscard]] FileMetrics read_metric_file(Engine& engine, const Key& key, const std::string& path,
                                           MetricNames& names, const std::stop_token& stop);

}  // namespace combu::telemetry
