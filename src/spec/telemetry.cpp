#include "spec/telemetry.hpp"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string>

#include "spec/fields.hpp"
#include "spec/outputs.hpp"
#include "spec/values.hpp"
#include "spec/volumes.hpp"

namespace combu::spec {
namespace {

constexpr std::array k_metrics_fields{Spelling{"stdout", "stdout"}, Spelling{"file", "file"},
                                      Spelling{"step", "step"}};
constexpr std::array k_logs_fields{Spelling{"max_size", "max_size"}};

// True if no group of the pattern names a metric. A group with the name `step` is not a metric.
bool names_no_metric(const re2::RE2& pattern, const std::string& step) {
  return std::ranges::all_of(pattern.NamedCapturingGroups(),
                             [&](const auto& group) { return group.first == step; });
}

void read_step(const Json& value, const Place& place, Report& report, Metrics& metrics) {
  const auto name = read_string(value, place, report);
  if (!name) return;
  if (name->empty()) {
    report.add(place, "the step's name is empty; name the number that counts the steps, such as \"epoch\"");
  } else {
    metrics.step = *name;
  }
}

void read_stdout(const Json& value, const Place& place, Report& report, Metrics& metrics) {
  const auto text = read_string(value, place, report);
  if (!text) return;
  if (*text == "json") {
    metrics.json = true;
    return;
  }
  const re2::RE2 pattern(*text, re2::RE2::Quiet);
  if (!pattern.ok()) {
    report.add(place,
               fmt::format(R"(must be "json" or a valid regular expression, not "{}": {} (RE2's syntax; )"
                           "(?P<loss>…) names a group)",
                           shortened(*text), pattern.error()));
  } else if (names_no_metric(pattern, metrics.step)) {
    report.add(place, fmt::format(R"("{}" names no metric: name a group by (?P<loss>…), or write "json" for )"
                                  "lines of JSON",
                                  shortened(*text)));
  } else {
    metrics.pattern = *text;
  }
}

}  // namespace

Metrics read_metrics(const Json& value, const Place& place, Report& report) {
  Metrics metrics;
  if (value.is_string()) {
    read_stdout(value, place, report, metrics);
    return metrics;
  }
  if (!value.is_object()) {
    report.add(place, fmt::format("must be an object with the fields `stdout`, `file` or `step`, not {}",
                                  shown(value)));
    return metrics;
  }
  const Section section(value, k_metrics_fields, place, report);
  const Json* step = section.find("step");
  const Json* out = section.find("stdout");
  const Json* file = section.find("file");
  if (step != nullptr) read_step(*step, place.key("step"), report, metrics);
  if (out != nullptr) read_stdout(*out, place.key("stdout"), report, metrics);
  // If only `step` is given, the metrics are JSON lines, because lines of another format need a regular
  // expression in `stdout`.
  if (step != nullptr && out == nullptr && file == nullptr) metrics.json = true;
  if (file != nullptr) {
    const auto text = read_string(*file, place.key("file"), report);
    // A relative path begins at the scratch folder, which only attempts in workers have (see check_worker()).
    if (text && !text->starts_with('/') && leads_out(*text)) {
      report.add(place.key("file"), fault_of_scratch_path(*text));
    } else if (text && text->ends_with('/')) {
      report.add(place.key("file"), fmt::format("\"{}\" is a folder: name the file", shortened(*text)));
    } else if (text && expect_no_pattern(*text, place.key("file"), report)) {
      metrics.file = std::filesystem::path(*text).lexically_normal().string();
    }
  }
  return metrics;
}

Bytes read_log_size(const Json& value, const Place& place, Report& report) {
  Bytes size = Trial{}.log_size_max;
  if (!value.is_object()) {
    report.add(place, fmt::format("must be {{max_size}}, not {}", shown(value)));
    return size;
  }
  const Section section(value, k_logs_fields, place, report);
  if (const Json* most = section.find("max_size"))
    size =
        read_unit(*most, "a size such as \"64m\"", parse_bytes, place.key("max_size"), report).value_or(size);
  return size;
}

}  // namespace combu::spec
