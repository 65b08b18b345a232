// Reads metrics from bytes that a trial writes: as lines of JSON, as CSV and with a pattern. If the stream is
// cut into feeds, the points must be the same as with one feed. No line may be longer than k_line_max, and no
// name longer than 256 bytes.

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cut_input.hpp"
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

// Returns all points as text. `sizes` as in feed_in_pieces().
std::string read(MetricLines::Form form, std::string_view bytes, std::string_view sizes) {
  static const Metrics metrics{.pattern =
                                   R"((?P<step>\d+).*?loss[ =](?P<loss>[-+.\w]+)(?: acc=(?P<acc>\S+))?)"};
  MetricLimits limits;
  MetricLines numbers(form, limits, metrics);
  Lines lines([&](std::string_view line, Instant at) {
    if (line.size() > combu::telemetry::k_line_max) std::abort();
    numbers.add(line, at);
  });
  fuzz::feed_in_pieces(bytes, sizes, [&](std::string_view part) { lines.feed(part, {}); });
  lines.end({});
  std::string text = fmt::format("{}", limits.passed_over());
  for (const LogBatch::Metric& metric : numbers.take_points()) {
    if (metric.name.size() > k_name_max) std::abort();
    text += metric.name;
    for (const MetricPoint& point : metric.points) text += fmt::format(" {}:{}", point.step, point.value);
    text += '\n';
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = fuzz::read_cut_input(data, size, 9);
  if (!input) return 0;
  const auto form = static_cast<MetricLines::Form>(input->form % 3);
  if (read(form, input->bytes, "") != read(form, input->bytes, input->sizes)) std::abort();
  return 0;
}
