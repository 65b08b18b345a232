#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "combu/json.hpp"
#include "combu/telemetry.hpp"
#include "combu/view.hpp"
#include "view/columns.hpp"
#include "view/json_string.hpp"
#include "view/line.hpp"
#include "view/names.hpp"
#include "view/numbers.hpp"
#include "view/table.hpp"

namespace combu {
namespace {

using Json = nlohmann::json;

Value value_of(const Json& json) {
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_null()) return {};
  return json_text(json);
}

// Sorts `names` and gives where each has come to.
std::vector<std::size_t> sort_names(std::vector<std::string>& names) {
  std::vector<std::size_t> order(names.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) -> const std::string& { return names[i]; });
  std::vector<std::size_t> places(names.size());
  std::vector<std::string> sorted;
  sorted.reserve(names.size());
  for (const std::size_t i : order) {
    places[i] = sorted.size();
    sorted.push_back(std::move(names[i]));
  }
  names = std::move(sorted);
  return places;
}

// Numbers for names, in the order in which they come.
class Names {
 public:
  std::size_t number_of(const std::string& name) {
    const auto [at, is_new] = numbers_.try_emplace(name, names_.size());
    if (is_new) names_.push_back(name);
    return at->second;
  }
  [[nodiscard]] std::vector<std::string> take() { return std::move(names_); }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::size_t> numbers_;
};

void read_params(Results& results) {
  Names names;
  for (ResultRow& row : results.rows) {
    if (row.trial.params.empty()) continue;
    const Json params = parse_json(row.trial.params);
    for (const auto& [name, json] : params.items()) {
      const std::size_t number = names.number_of(name);
      if (row.params.size() <= number) row.params.resize(number + 1);
      row.params[number] = value_of(json);
    }
  }
  results.params = names.take();
  const std::vector<std::size_t> places = sort_names(results.params);
  for (ResultRow& row : results.rows) {
    std::vector<Value> sorted(places.size());
    for (std::size_t i = 0; i < row.params.size(); ++i) sorted[places[i]] = std::move(row.params[i]);
    row.params = std::move(sorted);
  }
}

void read_metrics(Results& results) {
  if (results.telemetry == nullptr) return;
  std::unordered_map<std::string_view, ResultRow*> rows;
  for (ResultRow& row : results.rows) rows.emplace(row.trial.name, &row);
  Names names;
  results.telemetry->metrics([&](const MetricSummary& summary) {
    const auto found = rows.find(summary.trial);
    if (found == rows.end()) return;
    ResultRow& row = *found->second;
    if (summary.attempt == k_adopted && row.trial.state != TrialState::skipped) return;  // it is to run again
    const std::size_t number = names.number_of(summary.metric);
    if (row.metrics.size() <= number) row.metrics.resize(number + 1);
    row.metrics[number] = {
        .points = summary.points, .last = summary.last, .least = summary.least, .greatest = summary.greatest};
  });
  results.metrics = names.take();
  const std::vector<std::size_t> places = sort_names(results.metrics);
  for (ResultRow& row : results.rows) {
    std::vector<Told> sorted(places.size());
    for (std::size_t i = 0; i < row.metrics.size(); ++i) sorted[places[i]] = row.metrics[i];
    row.metrics = std::move(sorted);
  }
}

// ---- Sorting

bool is_value(const Value& value) {
  const auto* number = std::get_if<double>(&value);
  return number != nullptr ? !std::isnan(*number) : !std::holds_alternative<std::monostate>(value);
}

// Numbers before texts.
bool is_less(const Value& one, const Value& other) {
  const auto* left = std::get_if<std::string>(&one);
  const auto* right = std::get_if<std::string>(&other);
  if (left != nullptr && right != nullptr) return is_before(*left, *right);
  return one < other;
}

// The rows that are printed, in order.
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

// A table that is too wide leaves out params first, then fields, then metrics; never the trial and its state.
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

Results read_results(Record& record, Telemetry* telemetry, RunEntry run) {
  Results results{.run = std::move(run), .params = {}, .metrics = {}, .rows = {}, .telemetry = telemetry};
  results.rows.reserve(record.trial_count(results.run.id));
  record.trials(results.run.id, {}, Detail::all,
                [&]() -> TrialEntry& { return results.rows.emplace_back().trial; });
  read_params(results);
  read_metrics(results);
  return results;
}

std::set<std::string> choose_results(Results& results, const Filter& where) {
  std::map<std::string, std::optional<Column>, std::less<>> columns;
  std::set<std::string> valued;
  std::erase_if(results.rows, [&](const ResultRow& row) {
    return !where.matches([&](std::string_view name, std::string_view wanted) -> std::optional<std::string> {
      auto known = columns.find(name);
      if (known == columns.end()) known = columns.emplace(name, find_column(results, name)).first;
      if (!known->second) return std::nullopt;
      const Column& column = *known->second;
      if (column.of == Column::Of::field && column.name != "seconds") {
        valued.insert(known->first);
        return trial_value(row.trial, column.name, wanted);
      }
      const Value value = value_in(row, column);
      if (std::holds_alternative<std::monostate>(value)) return std::nullopt;
      valued.insert(known->first);
      return whole_text(value);
    });
  });
  std::set<std::string> valueless;
  for (const auto& [name, column] : columns)
    if (!valued.contains(name)) valueless.insert(name);
  return valueless;
}

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
        table.add_text(*text);  // whole: a name, a digest
      } else {
        table.add(value);
      }
    }
  }
  table.print(out, form.table.columns, "--columns chooses, a pipe has all");
  if (rows.size() < results.rows.size()) out << more_text(results.rows.size() - rows.size()) << '\n';
}

namespace {

void add_told(std::string& text, const std::string& name, const Told& told) {
  text +=
      fmt::format(R"({}:{{"last":{},"least":{},"greatest":{},"points":{}}})", json_string(name),
                  json_number(told.last), json_number(told.least), json_number(told.greatest), told.points);
}

void add_whole(std::string& text, const Results& results, const ResultRow& row, Instant now) {
  const TrialEntry& entry = row.trial;
  const auto time = time_of(entry, now);
  text += fmt::format(
      R"({{"experiment":{},"run":{},"simulated":{},"trial":{},"attempt":{},"state":"{}","exit_code":{},"seconds":{},"params":{},"metrics":{{)",
      json_string(results.run.experiment), json_string(results.run.id.text()), is_simulated(results.run),
      json_string(entry.name), entry.attempt, to_string(entry.state),
      entry.exit_code ? std::to_string(*entry.exit_code) : "null",
      time ? fmt::format("{:.6f}", time->count()) : "null", entry.params.empty() ? "null" : entry.params);
  bool is_first = true;
  for (std::size_t i = 0; i < results.metrics.size(); ++i) {
    if (row.metrics[i].points == 0) continue;
    if (!is_first) text.push_back(',');
    is_first = false;
    add_told(text, results.metrics[i], row.metrics[i]);
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
