#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "combu/analysis.hpp"
#include "combu/json.hpp"
#include "combu/telemetry.hpp"
#include "combu/text.hpp"

namespace combu {
namespace {

using Json = nlohmann::json;

Value value_of(const Json& json) {
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_null()) return {};
  return json_text(json);
}

// Sorts `names`. Element i of the result is the new index of the name that had the index i.
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

// Assigns numbers to names, in the order in which the names are first used.
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
    // The trial was skipped, but is started again, so the metrics reused from a cached trial do not count.
    if (summary.attempt == k_adopted && row.trial.state != TrialState::skipped) return;
    const std::size_t number = names.number_of(summary.metric);
    if (row.metrics.size() <= number) row.metrics.resize(number + 1);
    row.metrics[number] = {
        .points = summary.points, .last = summary.last, .least = summary.least, .greatest = summary.greatest};
  });
  results.metrics = names.take();
  const std::vector<std::size_t> places = sort_names(results.metrics);
  for (ResultRow& row : results.rows) {
    std::vector<TrialMetric> sorted(places.size());
    for (std::size_t i = 0; i < row.metrics.size(); ++i) sorted[places[i]] = row.metrics[i];
    row.metrics = std::move(sorted);
  }
}

}  // namespace

Results read_results(Record& record, std::shared_ptr<Telemetry> telemetry, RunEntry run) {
  Results results{
      .run = std::move(run), .params = {}, .metrics = {}, .rows = {}, .telemetry = std::move(telemetry)};
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

}  // namespace combu
