#pragma once
// Results of runs for tests, built row by row.

#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "combu/telemetry.hpp"
#include "combu/view.hpp"

namespace combu {

inline constexpr double k_no_number = std::numeric_limits<double>::quiet_NaN();
inline constexpr double k_infinite = std::numeric_limits<double>::infinity();

inline Results run_of(const std::string& id, std::vector<std::string> params,
                      std::vector<std::string> metrics = {"loss"}) {
  Results results{.run = {}, .params = std::move(params), .metrics = std::move(metrics), .rows = {}};
  results.run.id = RunId(id);
  results.run.experiment = "lab";
  return results;
}

// Adds a trial that succeeded. Each metric's least value is a tenth of its last value, and its greatest ten
// times the last one.
inline ResultRow& add(Results& results, const std::string& name, std::vector<Value> params,
                      const std::vector<Value>& metrics) {
  ResultRow& row = results.rows.emplace_back();
  row.trial.name = name;
  row.trial.state = TrialState::succeeded;
  row.params = std::move(params);
  nlohmann::ordered_json json;
  for (std::size_t i = 0; i < row.params.size(); ++i) {
    if (const auto* number = std::get_if<double>(&row.params[i])) json[results.params[i]] = *number;
    if (const auto* text = std::get_if<std::string>(&row.params[i])) json[results.params[i]] = *text;
  }
  if (!json.is_null()) row.trial.params = json.dump();
  for (const Value& value : metrics) {
    TrialMetric& reported = row.metrics.emplace_back();
    if (const auto* number = std::get_if<double>(&value))
      reported = {.points = 3, .last = *number, .least = *number / 10, .greatest = *number * 10};
  }
  return row;
}

inline Results grid() {
  Results results = run_of("mine", {"epochs", "lr", "model"});
  add(results, "a", {10.0, 0.1, "resnet"}, {0.25});
  add(results, "b", {10.0, 0.01, "vit"}, {12.5});
  ResultRow& last = add(results, "c", {10.0, 1e-05, std::monostate()}, {std::monostate()});
  last.trial.state = TrialState::failed;
  return results;
}

inline std::vector<std::string> lines_within(std::size_t columns, const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    EXPECT_LE(columns_of(line), columns) << line;
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace combu
