#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "combu/analysis.hpp"
#include "combu/json.hpp"
#include "combu/telemetry.hpp"
#include "combu/text.hpp"
#include "combu/view.hpp"
#include "view/numbers.hpp"
#include "view/table.hpp"

namespace combu {
namespace {

bool is_value(const Value& value) {
  const auto* number = std::get_if<double>(&value);
  return number != nullptr ? !std::isnan(*number) : !std::holds_alternative<std::monostate>(value);
}

// Numbers sort before texts.
bool is_less(const Value& one, const Value& other) {
  const auto* left = std::get_if<std::string>(&one);
  const auto* right = std::get_if<std::string>(&other);
  if (left != nullptr && right != nullptr) return is_before(*left, *right);
  return one < other;
}

// Returns the rows to print, in the order in which they are printed.
std::vector<const ResultRow*> sorted_rows(const Results& results, const ResultsForm& form) {
  std::vector<const ResultRow*> rows;
  rows.reserve(results.rows.size());
  for (const ResultRow& row : results.rows) rows.push_back(&row);
  const std::size_t shown = form.table.shown(rows.size());
  if (form.sort.empty()) {
    if (form.reverse) std::ranges::reverse(rows);
    rows.resize(shown);
    return rows;
  }
  const Column column = expect_column(results, form.sort, "--sort");
  std::vector<std::pair<Value, const ResultRow*>> keyed;
  keyed.reserve(rows.size());
  for (const ResultRow* row : rows) keyed.emplace_back(value_in(*row, column), row);
  std::ranges::stable_sort(keyed, [&](const auto& one, const auto& other) {
    const bool has_one = is_value(one.first);
    const bool has_other = is_value(other.first);
    if (!has_one || !has_other) return has_one && !has_other;
    return form.reverse ? is_less(other.first, one.first) : is_less(one.first, other.first);
  });
  std::ranges::transform(keyed, rows.begin(), [](const auto& one) { return one.second; });
  rows.resize(shown);
  return rows;
}

std::vector<Column> shown_columns(const Results& results, const ResultsForm& form) {
  std::vector<Column> columns;
  for (const std::string& name : form.columns) {
    Column column = expect_column(results, name, "--columns");
    if (std::ranges::find(columns, column) != columns.end())
      throw Error(ErrorKind::invalid, "--columns", fmt::format("`{}` is named twice", shortened(name)));
    columns.push_back(std::move(column));
  }
  if (!columns.empty()) return columns;
  columns.push_back(field_column("trial"));
  const std::vector<bool> shared = params_shared(results);
  for (std::size_t i = 0; i < shared.size(); ++i)
    if (!shared[i]) columns.push_back(param_column(results, i));
  columns.push_back(field_column("state"));
  columns.push_back(field_column("seconds"));
  for (std::size_t i = 0; i < results.metrics.size(); ++i) columns.push_back(metric_column(results, i));
  return columns;
}

// If the table is too wide, params are left out first, followed by fields and metrics. The trial and its
// state are always printed.
NumberTable::Head head_of(const Column& column) {
  constexpr int k_metric_rank = 1;
  constexpr int k_field_rank = 2;
  constexpr int k_param_rank = 3;
  if (column.of == Column::Of::param) return {.text = column.name, .rank = k_param_rank};
  if (column.of == Column::Of::metric) return {.text = column.name, .rank = k_metric_rank};
  if (column.name == "seconds") return {.text = "TIME", .rank = k_field_rank, .is_whole = true};
  const bool is_state = column.name == "state";
  NumberTable::Head head{.text = column.name,
                         .rank = is_state || column.name == "trial" ? 0 : k_field_rank,
                         .is_whole = is_state};
  std::ranges::transform(head.text, head.text.begin(), [](unsigned char letter) {
    return letter == '_' ? ' ' : static_cast<char>(std::toupper(letter));
  });
  return head;
}

std::string title_of(const Results& results, std::size_t columns_max) {
  TrialCounts counts{};
  for (const ResultRow& row : results.rows) ++counts.at(static_cast<std::size_t>(row.trial.state));
  const std::string states = results.rows.empty() ? "no trials" : counts_text(counts);
  const std::string text = run_title(results.run, ": " + states, columns_max) + "\n";
  const std::vector<bool> shared = params_shared(results);
  std::string same;
  for (std::size_t i = 0; i < shared.size(); ++i)
    if (shared[i])
      same += fmt::format("{}{}={}", same.empty() ? "" : " ", param_column(results, i).name,
                          whole_text(results.rows.front().params[i]));
  return same.empty() ? text : text + shared_line(same, columns_max) + "\n";
}

}  // namespace

void print_results(std::ostream& out, const Results& results, const ResultsForm& form) {
  const std::vector<Column> columns = shown_columns(results, form);
  const std::vector<const ResultRow*> rows = sorted_rows(results, form);
  out << title_of(results, form.table.columns);
  std::vector<NumberTable::Head> heads;
  std::ranges::transform(columns, std::back_inserter(heads), head_of);
  NumberTable table(heads);
  const Instant now = real_clock().now();
  for (const ResultRow* row : rows) {
    for (const Column& column : columns) {
      const Value value = value_in(*row, column);
      const auto* text = std::get_if<std::string>(&value);
      if (column.of == Column::Of::field && column.name == "seconds") {
        const auto time = time_of(row->trial, now);
        table.add_text(time ? to_string(*time) : "");
      } else if (column.of == Column::Of::field && text != nullptr) {
        table.add_text(*text);  // the text of a field, such as a name or a digest, is not shortened
      } else {
        table.add(value);
      }
    }
  }
  table.print(out, form.table.columns, "use --columns; piped output has all");
  if (rows.size() < results.rows.size()) out << more_text(results.rows.size() - rows.size()) << '\n';
}

namespace {

void add_metric(std::string& text, const std::string& name, const TrialMetric& metric) {
  text += fmt::format(R"({}:{{"last":{},"least":{},"greatest":{},"points":{}}})", json_string(name),
                      json_number(metric.last), json_number(metric.least), json_number(metric.greatest),
                      metric.points);
}

void add_whole(std::string& text, const Results& results, const ResultRow& row, Instant now) {
  const TrialEntry& entry = row.trial;
  const auto time = time_of(entry, now);
  text += fmt::format(
      R"({{"experiment":{},"run":{},"simulated":{},"trial":{},"attempt":{},"state":"{}","exit_code":{},"seconds":{},"params":{},"metrics":{{)",
      json_string(results.run.experiment), json_string(results.run.id.text()),
      results.run.engine.is_simulated, json_string(entry.name), entry.attempt, to_string(entry.state),
      entry.exit_code ? std::to_string(*entry.exit_code) : "null",
      time ? fmt::format("{:.6f}", time->count()) : "null", entry.params.empty() ? "null" : entry.params);
  bool is_first = true;
  for (std::size_t i = 0; i < results.metrics.size(); ++i) {
    if (row.metrics[i].points == 0) continue;
    if (!is_first) text.push_back(',');
    is_first = false;
    add_metric(text, results.metrics[i], row.metrics[i]);
  }
  text += "}}\n";
}

void add_chosen(std::string& text, const ResultRow& row, const std::vector<Column>& columns) {
  std::string_view before = "{";
  for (const Column& column : columns) {
    text += fmt::format("{}{}:{}", before, json_string(column.name), json_value(value_in(row, column)));
    before = ",";
  }
  text += "}\n";
}

}  // namespace

void print_results_json(std::ostream& out, const Results& results, const ResultsForm& form) {
  const std::vector<Column> columns = shown_columns(results, form);
  const Instant now = real_clock().now();
  std::string text;
  for (const ResultRow* row : sorted_rows(results, form)) {
    text.clear();
    if (form.columns.empty()) {
      add_whole(text, results, *row, now);
    } else {
      add_chosen(text, *row, columns);
    }
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
  }
}

}  // namespace combu
