// Bytes that a trial writes, searched for metrics as lines of JSON, as CSV and by a pattern. Cut anywhere
// they give the same points as in one feed. No line is longer than k_line_max, and no name than 256 bytes.
//
// Input: the form; how often the bytes are repeated; the number of sizes; the sizes by which the bytes are
// cut, each less one; the bytes.

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "telemetry/metrics.hpp"

namespace {

using combu::Instant;
using combu::LogBatch;
using combu::MetricPoint;
using combu::Metrics;
using combu::telemetry::Lines;
using combu::telemetry::MetricLimits;
using combu::telemetry::MetricLines;

constexpr std::size_t k_name_max = 256;

// All points as text. `sizes`: of the feeds, again and again; empty: one feed.
std::string read(MetricLines::Form form, std::string_view bytes, std::string_view sizes) {
  static const Metrics metrics{.pattern =
                                   R"((?P<step>\d+).*?loss[ =](?P<loss>[-+.\w]+)(?: acc=(?P<acc>\S+))?)"};
  MetricLimits limits;
  MetricLines numbers(form, limits, metrics);
  Lines lines([&](std::string_view line, Instant at) {
    if (line.size() > combu::telemetry::k_line_max) std::abort();
    numbers.take(line, at);
  });
  for (std::size_t i = 0; !bytes.empty(); ++i) {
    const std::size_t size =
        sizes.empty() ? bytes.size() : std::size_t{1} + static_cast<unsigned char>(sizes[i % sizes.size()]);
    const std::string_view part = bytes.substr(0, size);
    lines.feed(part, {});
    bytes.remove_prefix(part.size());
  }
  lines.end({});
  std::string text = fmt::format("{}", limits.passed_over());
  for (const LogBatch::Metric& metric : numbers.taken()) {
    if (metric.name.size() > k_name_max) std::abort();
    text += metric.name;
    for (const MetricPoint& point : metric.points) text += fmt::format(" {}:{}", point.step, point.value);
    text += '\n';
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t k_head = 3;
  if (size < k_head) return 0;
  const auto form = static_cast<MetricLines::Form>(data[0] % 3);
  // Rarely: long inputs are slow.
  const std::size_t repeats = data[1] < 240 ? 1 : std::size_t{1} << (data[1] % 9U);
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  rest.remove_prefix(k_head);
  const std::string_view sizes = rest.substr(0, data[2] % 16U);
  rest.remove_prefix(sizes.size());
  std::string bytes;
  for (std::size_t i = 0; i < repeats; ++i) bytes += rest;
  if (read(form, bytes, "") != read(form, bytes, sizes)) std::abort();
  return 0;
}
