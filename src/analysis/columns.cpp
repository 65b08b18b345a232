
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "combu/analysis.hpp"

namespace combu {
namespace {

constexpr std::string_view k_params = "params.";
constexpr std::string_view k_metrics = "metrics.";

struct Field {
  std::string_view name;
  bool is_number;
};
constexpr std::array<Field, 14> k_fields{{{"trial", false},
                                          {"attempt", true},
                                          {"state", false},
                                          {"seconds", true},
                                          {"exit_code", true},
                                          {"cause", false},
                                          {"reason", false},
                                          {"image", false},
                                          {"digest", false},
                                          {"id", false},
                                          {"gpus", false},
                                          {"memory_peak", true},
                                          {"cpu_seconds", true},
                                          {"version", true}}};

constexpr std::array<std::pair<std::string_view, Column::Part>, 4> k_parts{
    {{".last", Column::Part::last},
     {".least", Column::Part::least},
     {".greatest", Column::Part::greatest},
     {".points", Column::Part::points}}};

const Field* find_field(std::string_view name) {
  const auto* found = std::ranges::find(k_fields, name, &Field::name);
  return found == k_fields.end() ? nullptr : found;
}

std::optional<Column> find_param(const Results& results, std::string_view name, std::string_view called) {
  const auto index = index_of(results.params, name);
  if (!index) return std::nullopt;
  return Column{
      .of = Column::Of::param, .index = *index, .part = Column::Part::last, .name = std::string(called)};
}

// First looks for a metric with the whole `name`: "loss.least" may be the name of a metric, or the least
// value of `loss`.
std::optional<Column> find_metric(const Results& results, std::string_view name, std::string_view called) {
  const auto column = [&](std::size_t index, Column::Part part) {
    return Column{.of = Column::Of::metric, .index = index, .part = part, .name = std::string(called)};
  };
  if (const auto index = index_of(results.metrics, name)) return column(*index, Column::Part::last);
  for (const auto& [ending, part] : k_parts) {
    if (!name.ends_with(ending)) continue;
    if (const auto index = index_of(results.metrics, name.substr(0, name.size() - ending.size())))
      return column(*index, part);
  }
  return std::nullopt;
}

Value field_in(const TrialEntry& entry, std::string_view name) {
  if (name == "seconds") {
    const auto time = time_of(entry, real_clock().now());
    return time ? Value(time->count()) : Value();
  }
  const auto text = trial_value(entry, name);
  if (!text || text->empty()) return {};
  if (!find_field(name)->is_number) return *text;
  double number = 0;
  std::from_chars(text->data(), text->data() + text->size(), number);
  return number;
}

// Returns no value if the metric has no points.
Value part_of(const TrialMetric& metric, Column::Part part) {
  if (metric.points == 0) return {};
  switch (part) {
    case Column::Part::least:
      return metric.least;
    case Column::Part::greatest:
      return metric.greatest;
    case Column::Part::points:
      return static_cast<double>(metric.points);
    default:
      return metric.last;
  }
}

}  // namespace

std::optional<std::size_t> index_of(const std::vector<std::string>& names, std::string_view name) {
  const auto found = std::ranges::lower_bound(names, name);
  if (found == names.end() || *found != name) return std::nullopt;
  return static_cast<std::size_t>(found - names.begin());
}

bool is_field(std::string_view name) {
  return name == "time" || find_field(name) != nullptr;
}

std::optional<Column> find_column(const Results& results, std::string_view name) {
  if (name.starts_with(k_params)) return find_param(results, name.substr(k_params.size()), name);
  if (name.starts_with(k_metrics)) return find_metric(results, name.substr(k_metrics.size()), name);
  if (name == "time") return field_column("seconds");
  if (find_field(name) != nullptr) return field_column(name);
  if (auto param = find_param(results, name, name)) return param;
  return find_metric(results, name, name);
}

std::optional<std::string> nearest_column(const Results& results, std::string_view name) {
  if (find_column(results, name)) return std::nullopt;
  std::vector<std::string_view> known;
  known.reserve(k_fields.size() + results.params.size() + results.metrics.size());
  for (const Field& field : k_fields) known.push_back(field.name);
  known.insert(known.end(), results.params.begin(), results.params.end());
  known.insert(known.end(), results.metrics.begin(), results.metrics.end());
  const auto near = nearest(name, known);
  return near ? std::optional(std::string(*near)) : std::nullopt;
}

Column expect_column(const Results& results, std::string_view name, std::string_view subject) {
  if (auto column = find_column(results, name)) return *std::move(column);
  const auto near = nearest_column(results, name);
  throw Error(ErrorKind::invalid, std::string(subject),
              fmt::format("run {} has no param and no metric `{}`{}", results.run.id.text(), shortened(name),
                          near ? fmt::format("; did you mean `{}`?", *near)
                               : "; `combu results` without options shows all params and metrics"));
}

Column field_column(std::string_view name) {
  return {.of = Column::Of::field, .index = 0, .part = Column::Part::last, .name = std::string(name)};
}

Column param_column(const Results& results, std::size_t index) {
  const std::string& name = results.params[index];
  Column column{.of = Column::Of::param, .index = index, .part = Column::Part::last, .name = name};
  if (find_column(results, name) != column) column.name = std::string(k_params) + name;
  return column;
}

Column metric_column(const Results& results, std::size_t index) {
  const std::string& name = results.metrics[index];
  Column column{.of = Column::Of::metric, .index = index, .part = Column::Part::last, .name = name};
  if (find_column(results, name) != column) column.name = std::string(k_metrics) + name;
  return column;
}

Value value_in(const ResultRow& row, const Column& column) {
  switch (column.of) {
    case Column::Of::param:
      return row.params[column.index];
    case Column::Of::metric:
      return part_of(row.metrics[column.index], column.part);
    default:
      return field_in(row.trial, column.name);
  }
}

std::optional<Seconds> time_of(const TrialEntry& entry, Instant now) {
  if (!entry.ran_at || (!entry.ended_at && entry.state != TrialState::running)) return std::nullopt;
  return std::max(Seconds(0), Seconds(entry.ended_at.value_or(now) - *entry.ran_at));
}

std::vector<bool> params_shared(const Results& results) {
  std::vector<bool> shared(results.params.size(), results.rows.size() > 1);
  for (std::size_t i = 0; i < shared.size(); ++i)
    shared[i] = shared[i] && std::ranges::all_of(results.rows, [&](const ResultRow& row) {
                  return row.params[i] == results.rows.front().params[i];
                });
  return shared;
}

}  // namespace combu
