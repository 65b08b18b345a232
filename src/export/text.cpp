#include "combu/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>

#include "combu/analysis.hpp"
#include "combu/export.hpp"
#include "combu/json.hpp"
#include "combu/telemetry.hpp"

namespace combu {
namespace {

// ---- A row for each trial

// A column of the exported table, and the corresponding column of each run. nullopt: the run does not have
// the column.
struct SheetColumn {
  std::string name;
  std::vector<std::optional<Column>> of_run{};
};

// Fields that are useful in a table of several runs.
constexpr std::array<std::string_view, 8> k_sheet_fields{"trial",     "attempt", "state", "seconds",
                                                         "exit_code", "cause",   "image", "digest"};
constexpr std::array<std::pair<std::string_view, Column::Part>, 4> k_sheet_parts{
    {{"", Column::Part::last},
     {".least", Column::Part::least},
     {".greatest", Column::Part::greatest},
     {".points", Column::Part::points}}};

std::string lower(std::string_view text) {
  std::string all(text);
  std::ranges::transform(all, all.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  return all;
}

// Chooses column names that differ in more than the case of letters, because SQL ignores the case of names.
class Namer {
 public:
  // Returns the first free name among `name`, `prefix` + `name`, and `prefix` + `name` with a number at the
  // end. For a metric, the name must also be free with each suffix of k_sheet_parts.
  std::string take(std::string_view prefix, const std::string& name, bool is_metric) {
    std::string chosen = name;
    for (int number = 1; !is_free(chosen, is_metric); ++number)
      chosen = fmt::format("{}{}{}", prefix, name, number == 1 ? "" : fmt::format("_{}", number));
    for (const std::string& one : all_of(chosen, is_metric)) taken_.insert(one);
    return chosen;
  }

 private:
  static std::vector<std::string> all_of(const std::string& name, bool is_metric) {
    if (!is_metric) return {lower(name)};
    std::vector<std::string> all;
    all.reserve(k_sheet_parts.size());
    for (const auto& part : k_sheet_parts) all.push_back(lower(name) + std::string(part.first));
    return all;
  }
  [[nodiscard]] bool is_free(const std::string& name, bool is_metric) const {
    return !name.empty() && !is_field(lower(name)) &&
           std::ranges::none_of(all_of(name, is_metric),
                                [&](const std::string& one) { return taken_.contains(one); });
  }

  std::set<std::string> taken_{"run"};
};

std::set<std::string> names_of(std::span<const Results> runs, std::vector<std::string> Results::*names) {
  std::set<std::string> all;
  for (const Results& run : runs) all.insert((run.*names).begin(), (run.*names).end());
  return all;
}

std::vector<SheetColumn> sheet_columns_of(std::span<const Results> runs) {
  std::vector<SheetColumn> columns;
  columns.reserve(k_sheet_fields.size());
  for (const std::string_view field : k_sheet_fields)
    columns.push_back({std::string(field), std::vector(runs.size(), std::optional(field_column(field)))});
  Namer namer;
  for (const std::string& param : names_of(runs, &Results::params)) {
    SheetColumn& column = columns.emplace_back(SheetColumn{namer.take("params.", param, false)});
    for (const Results& run : runs) {
      const auto place = index_of(run.params, param);
      column.of_run.push_back(place ? std::optional(param_column(run, *place)) : std::nullopt);
    }
  }
  for (const std::string& metric : names_of(runs, &Results::metrics)) {
    const std::string name = namer.take("metrics.", metric, true);
    for (const auto& [ending, part] : k_sheet_parts) {
      SheetColumn& column = columns.emplace_back(SheetColumn{name + std::string(ending)});
      for (const Results& run : runs) {
        const auto place = index_of(run.metrics, metric);
        column.of_run.push_back(place ? std::optional(metric_column(run, *place)) : std::nullopt);
        if (place) column.of_run.back()->part = part;
      }
    }
  }
  return columns;
}

Value value_of(const ResultRow& row, const std::optional<Column>& column) {
  return column ? value_in(row, *column) : Value();
}

// Escapes a cell as RFC 4180 defines.
void add_csv(std::string& text, std::string_view cell) {
  if (cell.find_first_of("\",\r\n") == std::string_view::npos) {
    text.append(cell);
    return;
  }
  text.push_back('"');
  for (const char letter : cell) {
    if (letter == '"') text.push_back('"');
    text.push_back(letter);
  }
  text.push_back('"');
}

void put(std::ostream& out, std::string& text) {
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  text.clear();
}

// Returns a param as JSON. If the param in the experiment file is an object, an array, a boolean or null,
// takes it from `params`, because `value` does not keep these types.
std::string param_json(const nlohmann::ordered_json& params, const std::string& name, const Value& value) {
  const auto at = params.find(name);
  if (at == params.end() || at->is_number() || at->is_string()) return json_value(value);
  return json_text(*at);
}

// ---- A row for each point

template <class OnPoint>
void each_point(std::span<const Results> runs, const OnPoint& on_point) {
  for (const Results& run : runs) {
    for (const ResultRow& row : run.rows)
      for (std::size_t i = 0; i < run.metrics.size(); ++i)
        if (row.metrics[i].points > 0)
          run.telemetry->points(row.trial.name, run.metrics[i],
                                [&](const MetricPoint& point) { on_point(run, row, run.metrics[i], point); });
  }
}

}  // namespace

void export_csv(std::ostream& out, std::span<const Results> runs) {
  const std::vector<SheetColumn> columns = sheet_columns_of(runs);
  std::string text;
  text.append(std::string_view("run"));
  for (const SheetColumn& column : columns) {
    text.push_back(',');
    add_csv(text, column.name);
  }
  text.push_back('\n');
  put(out, text);
  for (std::size_t run = 0; run < runs.size(); ++run) {
    for (const ResultRow& row : runs[run].rows) {
      text.append(runs[run].run.id.text());
      for (const SheetColumn& column : columns) {
        text.push_back(',');
        add_csv(text, whole_text(value_of(row, column.of_run[run])));
      }
      text.push_back('\n');
      put(out, text);
    }
  }
}

void export_json(std::ostream& out, std::span<const Results> runs) {
  const std::vector<SheetColumn> columns = sheet_columns_of(runs);
  std::vector<std::string> heads;
  heads.reserve(columns.size());
  for (const SheetColumn& column : columns) heads.push_back("," + json_string(column.name) + ":");
  std::string text;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    const std::string of = R"({"run":)" + json_string(runs[run].run.id.text());
    for (const ResultRow& row : runs[run].rows) {
      text.append(of);
      const auto params =
          row.trial.params.empty() ? nlohmann::ordered_json::object() : parse_ordered_json(row.trial.params);
      for (std::size_t i = 0; i < heads.size(); ++i) {
        const std::optional<Column>& column = columns[i].of_run[run];
        const Value value = value_of(row, column);
        text.append(heads[i]);
        text.append(column && column->of == Column::Of::param
                        ? param_json(params, runs[run].params[column->index], value)
                        : json_value(value));
      }
      text.append(std::string_view("}\n"));
      put(out, text);
    }
  }
}

void export_points_csv(std::ostream& out, std::span<const Results> runs) {
  out << "run,trial,metric,step,time,value\n";
  std::string text;
  each_point(runs, [&](const Results& run, const ResultRow& row, const std::string& metric,
                       const MetricPoint& point) {
    text += fmt::format("{},{},", run.run.id.text(), row.trial.name);
    add_csv(text, metric);
    text +=
        fmt::format(",{},{},{}\n", whole_number(point.step), rfc3339(point.at), whole_number(point.value));
    put(out, text);
  });
}

void export_points_json(std::ostream& out, std::span<const Results> runs) {
  std::string text;
  each_point(runs, [&](const Results& run, const ResultRow& row, const std::string& metric,
                       const MetricPoint& point) {
    text += fmt::format(R"({{"run":{},"trial":{},"metric":{},"step":{},"time":"{}","value":{}}})"
                        "\n",
                        json_string(run.run.id.text()), json_string(row.trial.name), json_string(metric),
                        json_number(point.step), rfc3339(point.at), json_number(point.value));
    put(out, text);
  });
}

}  // namespace combu
