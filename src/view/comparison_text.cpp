#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <utility>

#include "combu/analysis.hpp"
#include "combu/text.hpp"
#include "combu/view.hpp"
#include "view/numbers.hpp"

namespace combu {
namespace {

bool has_repeats(const PairTable& table) {
  return std::ranges::any_of(table.pairs, [](const Pair& pair) {
    return std::ranges::any_of(pair.samples, [](const Sample& sample) { return sample.count > 1; });
  });
}

void add_number(NumberTable& table, double number) {
  if (std::isnan(number))
    table.add(Value());
  else
    table.add(number);
}

std::string title_of(const PairTable& table, std::span<const Results> runs, bool repeats) {
  std::string text = fmt::format("{} of run {}", table.metric, runs.front().run.id.text());
  for (const Results& run : runs.subspan(1))
    text += fmt::format(", and of run {} minus run {}", run.run.id.text(), runs.front().run.id.text());
  if (repeats) text += "; ± is half of a 95 % interval (Student's t)";
  return text;
}

// If the table is too wide, the columns of deviations are left out first, followed by counts, intervals,
// params, and at last means and differences. The first column is always printed because it names the row.
std::vector<NumberTable::Head> heads_of(const PairTable& table, std::span<const Results> runs, bool repeats) {
  constexpr int k_value_rank = 1;
  constexpr int k_param_rank = 2;
  constexpr int k_half_rank = 3;
  constexpr int k_count_rank = 4;
  constexpr int k_deviation_rank = 5;
  std::vector<NumberTable::Head> heads;
  const auto add = [&](std::string text, int rank) {
    heads.push_back({.text = std::move(text), .rank = heads.empty() ? 0 : rank});
  };
  if (table.by_name) add("TRIAL", 0);
  for (const std::string& param : table.params) add(param, k_param_rank);
  for (const Results& run : runs) {
    add(run.run.id.text(), k_value_rank);
    if (!repeats) continue;
    add("±", k_half_rank);
    add("DEVIATION", k_deviation_rank);
    add("N", k_count_rank);
  }
  for (std::size_t run = 1; run < runs.size(); ++run) {
    add(runs.size() == 2 ? "DIFFERENCE"
                         : fmt::format("{} MINUS {}", runs[run].run.id.text(), runs[0].run.id.text()),
        k_value_rank);
    if (!repeats) continue;
    add("±", k_value_rank);
    add("BY", k_value_rank);
  }
  return heads;
}

void add_pair(NumberTable& text, const PairTable& table, const Pair& pair, bool repeats) {
  if (table.by_name) text.add_text(pair.trial);
  for (const Value& value : pair.params) text.add(value);
  for (const Sample& sample : pair.samples) {
    add_number(text, sample.mean);
    if (!repeats) continue;
    add_number(text, sample.half);
    add_number(text, sample.deviation);
    text.add_number(std::to_string(sample.count));
  }
  for (const Difference& difference : pair.differences) {
    add_number(text, difference.mean);
    if (!repeats) continue;
    add_number(text, difference.half);
    text.add_text(to_string(difference.pairing));
  }
}

void print_overall(std::ostream& out, const PairTable& table, std::span<const Results> runs) {
  for (std::size_t i = 0; i < table.overall.size(); ++i) {
    const Difference& difference = table.overall[i];
    if (difference.pairing == Pairing::none) continue;
    out << fmt::format("all {} pairs: {} minus {} is {} ± {} on average (95 %, paired)\n",
                       table.overall_count[i], runs[i + 1].run.id.text(), runs.front().run.id.text(),
                       short_number(difference.mean), short_number(difference.half));
  }
}

std::string interval_json(double mean, double half) {
  if (std::isnan(half)) return "null";
  return fmt::format("[{},{}]", json_number(mean - half), json_number(mean + half));
}

void add_params_json(std::string& text, const PairTable& table, const Pair& pair) {
  text += R"("params":{)";
  std::string_view before;
  const auto add = [&](const std::string& name, const std::string& json) {
    text += fmt::format("{}{}:{}", before, json_string(name), json);
    before = ",";
  };
  for (const auto& [name, value] : table.shared) add(name, json_value(value));
  for (std::size_t i = 0; i < table.params.size(); ++i) add(table.params[i], json_value(pair.params[i]));
  text += '}';
}

std::string pair_json(const PairTable& table, const Pair& pair, std::span<const Results> runs) {
  std::string text = fmt::format(R"({{"metric":{},)", json_string(table.metric));
  if (!pair.trial.empty()) text += fmt::format(R"("trial":{},)", json_string(pair.trial));
  add_params_json(text, table, pair);
  text += R"(,"runs":[)";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Sample& sample = pair.samples[i];
    text +=
        fmt::format(R"({}{{"run":{},"count":{},"mean":{},"deviation":{},"interval":{}}})", i == 0 ? "" : ",",
                    json_string(runs[i].run.id.text()), sample.count, json_number(sample.mean),
                    json_number(sample.deviation), interval_json(sample.mean, sample.half));
  }
  text += R"(],"differences":[)";
  for (std::size_t i = 0; i < pair.differences.size(); ++i) {
    const Difference& difference = pair.differences[i];
    const std::string_view by = to_string(difference.pairing);
    text +=
        fmt::format(R"({}{{"run":{},"difference":{},"interval":{},"by":{}}})", i == 0 ? "" : ",",
                    json_string(runs[i + 1].run.id.text()), json_number(difference.mean),
                    interval_json(difference.mean, difference.half), by.empty() ? "null" : json_string(by));
  }
  return text + "]}\n";
}

}  // namespace

void print_comparison(std::ostream& out, std::span<const Results> runs, const CompareForm& form,
                      const TableForm& limits) {
  std::string_view before;
  for (const PairTable& table : compare(runs, form)) {
    const bool repeats = has_repeats(table);
    out << before << fit_line(title_of(table, runs, repeats), limits.columns) << '\n';
    before = "\n";
    std::string shared;
    for (const auto& [name, value] : table.shared)
      shared += fmt::format("{}{}={}", shared.empty() ? "" : " ", name, short_text(value));
    if (!shared.empty()) out << shared_line(shared, limits.columns) << '\n';
    if (!table.pairs.empty()) {
      NumberTable text(heads_of(table, runs, repeats));
      const std::size_t shown = limits.shown(table.pairs.size());
      for (const Pair& pair : std::span(table.pairs).first(shown)) add_pair(text, table, pair, repeats);
      text.print(out, limits.columns, "piped output has all");
      if (shown < table.pairs.size()) out << more_text(table.pairs.size() - shown) << '\n';
    }
    print_overall(out, table, runs);
    for (const std::string& note : table.notes) out << clean_line(note) << '\n';
  }
}

std::vector<std::string> print_comparison_json(std::ostream& out, std::span<const Results> runs,
                                               const CompareForm& form, const TableForm& limits) {
  const std::vector<PairTable> tables = compare(runs, form);
  std::vector<std::string> notes;
  for (const PairTable& table : tables) {
    const std::size_t shown = limits.shown(table.pairs.size());
    for (const Pair& pair : std::span(table.pairs).first(shown)) out << pair_json(table, pair, runs);
    for (const std::string& note : table.notes) {
      const bool is_of_all = std::ranges::all_of(tables, [&](const PairTable& other) {
        return std::ranges::find(other.notes, note) != other.notes.end();
      });
      std::string line = is_of_all ? note : fmt::format("{}: {}", table.metric, note);
      if (std::ranges::find(notes, line) == notes.end()) notes.push_back(std::move(line));
    }
  }
  return notes;
}

}  // namespace combu
