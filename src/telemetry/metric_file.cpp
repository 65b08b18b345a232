#include "telemetry/metric_file.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace combu::telemetry {

FileMetrics read_metric_file(Engine& engine, const Key& key, const Metrics& metrics, MetricLimits& limits,
                             const std::stop_token& stop, Bytes size_max) {
  const std::string& path = metrics.file;
  MetricLines numbers(path.ends_with(".csv") ? MetricLines::Form::csv : MetricLines::Form::json, limits,
                      metrics);
  Lines lines([&](std::string_view line, Instant when) { numbers.add(line, when); });
  std::string fault;
  const auto parse = [&](const NextBytes& next, Instant modified) {
    auto left = static_cast<std::size_t>(size_max.count);
    for (std::string_view bytes = next(); !bytes.empty(); bytes = next()) {
      lines.feed(bytes.substr(0, left), modified);
      if (bytes.size() > left) {
        fault = fmt::format("the metrics file {} is larger than {}: combu reads only its beginning", path,
                            to_string(size_max));
        return;
      }
      left -= bytes.size();
    }
    lines.end(modified);
  };
  try {
    if (!read_file(engine, key, path, parse, stop))
      return {.fault = fmt::format("the metrics file {} does not exist", path)};
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::invalid) {
      fault = fmt::format("the metrics file {} {}", path, error.message());
    } else if (error.kind() == ErrorKind::corrupt) {
      fault = fmt::format("the engine's archive of the metrics file {} is invalid", path);
    } else {
      throw;
    }
  }
  FileMetrics file{.metrics = numbers.take_points(), .fault = std::move(fault)};
  if (file.metrics.empty() && file.fault.empty())
    file.fault = fmt::format("the metrics file {} has no numbers", path);
  return file;
}

}  // namespace combu::telemetry
