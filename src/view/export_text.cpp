#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "combu/telemetry.hpp"
#include "combu/view.hpp"
#include "view/columns.hpp"
#include "view/json_text.hpp"
#include "view/numbers.hpp"

namespace combu {
namespace {

// ---- A row for each trial

struct Sheet {
  std::vector<std::string> names;
  std::vector<std::vector<std::optional<Column>>> columns;  // by run, then name
};

// Those of which a person asks in a table of many runs.
constexpr std::array<std::string_view, 8> k_fields{"trial",     "attempt", "state", "seconds",
                                                   "exit_code", "cause",   "image", "digest"};
constexpr std::array<std::string_view, 3> k_parts{".least", ".greatest", ".points"};

Sheet sheet_of(std::span<const Results> runs) {
  Sheet sheet;
  sheet.names.assign(k_fields.begin(), k_fields.end());
  std::set<std::string> params;
  std::set<std::string> metrics;
  for (const Results& run : runs) {
    for (std::size_t i = 0; i < run.params.size(); ++i) params.insert(param_column(run, i).name);
    for (std::size_t i = 0; i < run.metrics.size(); ++i) metrics.insert(metric_column(run, i).name);
  }
  sheet.names.insert(sheet.names.end(), params.begin(), params.end());
  for (const std::string& metric : metrics) {
    // Of two runs one may have a param, the other a metric of this name.
    if (!params.contains(metric)) sheet.names.push_back(metric);
    for (const std::string_view part : k_parts) sheet.names.push_back(metric + std::string(part));
  }
  for (const Results& run : runs) {
    std::vector<std::optional<Column>>& columns = sheet.columns.emplace_back();
    for (const std::string& name : sheet.names) columns.push_back(find_column(run, name));
  }
  return sheet;
}

Value value_of(const ResultRow& row, const std::optional<Column>& column) {
  return column ? value_in(row, *column) : Value();
}

// RFC 4180, with the line ends that everybody reads.
void add_csv(fmt::memory_buffer& text, std::string_view cell) {
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

void put(std::ostream& out, fmt::memory_buffer& text) {
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  text.clear();
}

// A param as the file has it: also what is neither a number nor a text.
std::string param_json(const nlohmann::ordered_json& params, const std::string& name, const Value& value) {
  const auto at = params.find(name);
  if (at == params.end() || at->is_number() || at->is_string()) return json_value(value);
  return json_text(*at);
}

// ---- A row for each point

template <class Tell>
void each_point(std::span<const Results> runs, const Tell& tell) {
  for (const Results& run : runs) {
    for (const ResultRow& row : run.rows)
      for (std::size_t i = 0; i < run.metrics.size(); ++i)
        if (row.metrics[i].points > 0)
          row.telemetry->points(row.told_as, run.metrics[i],
                                [&](const MetricPoint& point) { tell(run, row, run.metrics[i], point); });
  }
}

}  // namespace

void export_csv(std::ostream& out, std::span<const Results> runs) {
  const Sheet sheet = sheet_of(runs);
  fmt::memory_buffer text;
  text.append(std::string_view("run"));
  for (const std::string& name : sheet.names) {
    text.push_back(',');
    add_csv(text, name);
  }
  text.push_back('\n');
  put(out, text);
  for (std::size_t run = 0; run < runs.size(); ++run) {
    for (const ResultRow& row : runs[run].rows) {
      text.append(runs[run].run.id.text());
      for (const auto& column : sheet.columns[run]) {
        text.push_back(',');
        add_csv(text, whole_text(value_of(row, column)));
      }
      text.push_back('\n');
      put(out, text);
    }
  }
}

void export_json(std::ostream& out, std::span<const Results> runs) {
  const Sheet sheet = sheet_of(runs);
  std::vector<std::string> heads;
  for (const std::string& name : sheet.names) heads.push_back("," + json_string(name) + ":");
  fmt::memory_buffer text;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    const std::string of = R"({"run":)" + json_string(runs[run].run.id.text());
    for (const ResultRow& row : runs[run].rows) {
      text.append(of);
      const auto params = row.trial.params.empty() ? nlohmann::ordered_json::object()
                                                   : nlohmann::ordered_json::parse(row.trial.params);
      for (std::size_t i = 0; i < heads.size(); ++i) {
        const std::optional<Column>& column = sheet.columns[run][i];
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
  fmt::memory_buffer text;
  each_point(runs, [&](const Results& run, const ResultRow& row, const std::string& metric,
                       const MetricPoint& point) {
    fmt::format_to(std::back_inserter(text), "{},{},", run.run.id.text(), row.trial.name);
    add_csv(text, metric);
    fmt::format_to(std::back_inserter(text), ",{},{},{}\n", whole_number(point.step), rfc3339(point.at),
                   whole_number(point.value));
    put(out, text);
  });
}

void export_points_json(std::ostream& out, std::span<const Results> runs) {
  fmt::memory_buffer text;
  each_point(runs, [&](const Results& run, const ResultRow& row, const std::string& metric,
                       const MetricPoint& point) {
    fmt::format_to(std::back_inserter(text),
                   R"({{"run":{},"trial":{},"metric":{},"step":{},"time":"{}","value":{}}})"
                   "\n",
                   json_string(run.run.id.text()), json_string(row.trial.name), json_string(metric),
                   json_number(point.step), rfc3339(point.at), json_number(point.value));
    put(out, text);
  });
}

}  // namespace combu
