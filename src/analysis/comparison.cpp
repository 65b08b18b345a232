
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <unordered_map>

#include "combu/analysis.hpp"
#include "combu/text.hpp"

namespace combu {
namespace {

constexpr std::size_t k_named_max = 5;

bool is_there(const Value& value) {
  return !std::holds_alternative<std::monostate>(value);
}

bool has_succeeded(const ResultRow& row) {
  return combu::has_succeeded(row.trial.state);
}

bool has_params(const ResultRow& row) {
  // a text of `params` with at most two characters, "" or "{}", means no params
  constexpr std::size_t k_none = 2;
  return row.trial.params.size() > k_none;
}

// The index of a param in each run, or nullopt for a run without this param.
using Places = std::vector<std::optional<std::size_t>>;

Value value_at(const ResultRow& row, const std::optional<std::size_t>& place) {
  return place ? row.params[*place] : Value();
}

// How a param influences which trials are paired.
enum class Role {
  alike,  // trials are paired only if they have the same value of the param
  // the param changed between the runs: trials are paired only if both or neither have it, whatever its
  // values
  there,
  // the param changed between the runs, and no trial of one run has a value for the param: the param is
  // ignored
  elsewhere,
  repeat  // the param differs between repetitions: ignored when trials are paired, used to match repetitions
};

struct Param {
  std::string name;
  Places places{};
  Role role = Role::alike;
};

// The params of the compared runs, each with its role in the pairing of trials, and notes about these params.
struct Grounds {
  std::vector<Param> params;  // sorted by name
  std::vector<std::string> notes{};

  [[nodiscard]] std::vector<const Param*> of(Role role) const {
    std::vector<const Param*> some;
    for (const Param& param : params)
      if (param.role == role) some.push_back(&param);
    return some;
  }
};

// Trials with equal keys are paired. A key contains the values of the params that must be equal, each with
// its type and length.
class Key {
 public:
  explicit Key(const Grounds& grounds)
      : alike_(grounds.of(Role::alike)), there_(grounds.of(Role::there)), repeat_(grounds.of(Role::repeat)) {}

  [[nodiscard]] std::string of(std::size_t run, const ResultRow& row) const {
    if (!has_params(row)) return row.trial.name;
    std::string key = text_of(alike_, run, row);
    for (const Param* param : there_) key += is_there(value_at(row, param->places[run])) ? '+' : '-';
    return key + '/';  // the '/' distinguishes the key from a trial's name, which cannot contain '/'
  }
  [[nodiscard]] std::string repeat_of(std::size_t run, const ResultRow& row) const {
    return text_of(repeat_, run, row);
  }

 private:
  static std::string text_of(const std::vector<const Param*>& params, std::size_t run, const ResultRow& row) {
    std::string all;
    for (const Param* param : params) {
      const Value value = value_at(row, param->places[run]);
      const std::string text = whole_text(value);
      all += fmt::format("{}.{}:{}", value.index(), text.size(), text);
    }
    return all;
  }

  std::vector<const Param*> alike_;
  std::vector<const Param*> there_;
  std::vector<const Param*> repeat_;
};

// Returns the distinct values that a param has in the successful trials of a run.
std::set<Value> values_in(const Results& run, const std::optional<std::size_t>& place) {
  std::set<Value> values;
  for (const ResultRow& row : run.rows)
    if (place && has_succeeded(row) && is_there(row.params[*place])) values.insert(row.params[*place]);
  return values;
}

// True if the param has at most one value in each run, and if this value differs between the runs.
bool is_change(const std::vector<std::set<Value>>& values) {
  return std::ranges::all_of(values, [](const auto& some) { return some.size() <= 1; }) &&
         std::ranges::any_of(values, [&](const auto& some) { return some != values.front(); });
}

Role role_of(const std::vector<std::set<Value>>& values) {
  if (values.size() < 2 || !is_change(values)) return Role::alike;
  const bool is_everywhere = std::ranges::none_of(values, [](const auto& some) { return some.empty(); });
  return is_everywhere ? Role::there : Role::elsewhere;
}

// True if a run has a trial with the param and a trial without the param, and both trials have the same key.
bool distinguishes(std::span<const Results> runs, const Grounds& grounds, const Param& param) {
  const Key key(grounds);
  for (std::size_t run = 0; run < runs.size(); ++run) {
    std::unordered_map<std::string, bool> had;
    for (const ResultRow& row : runs[run].rows) {
      if (!has_succeeded(row) || !has_params(row)) continue;
      const bool has = is_there(value_at(row, param.places[run]));
      if (had.try_emplace(key.of(run, row), has).first->second != has) return true;
    }
  }
  return false;
}

// Returns for example "optimizer sgd → adam".
std::string change_text(const std::string& name, const std::vector<std::set<Value>>& values) {
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const std::set<Value>& some : values) texts.push_back(some.empty() ? "–" : whole_text(*some.begin()));
  return fmt::format("{} {}", name, fmt::join(texts, " → "));
}

Grounds grounds_of(std::span<const Results> runs, const std::vector<std::string>& over) {
  std::set<std::string> names;
  for (const Results& run : runs) names.insert(run.params.begin(), run.params.end());
  Grounds grounds;
  std::vector<std::vector<std::set<Value>>> values;
  for (const std::string& name : names) {
    Param& param = grounds.params.emplace_back(Param{.name = name});
    std::vector<std::set<Value>>& by_run = values.emplace_back();
    for (const Results& run : runs) {
      param.places.push_back(index_of(run.params, name));
      by_run.push_back(values_in(run, param.places.back()));
    }
    const bool is_repeat = std::ranges::find(over, name) != over.end();
    param.role = is_repeat ? Role::repeat : role_of(by_run);
  }
  std::vector<std::string> changes;
  for (std::size_t i = 0; i < values.size(); ++i) {
    Param& param = grounds.params[i];
    if (param.role == Role::elsewhere && distinguishes(runs, grounds, param)) param.role = Role::alike;
    if (param.role == Role::there || param.role == Role::elsewhere)
      changes.push_back(change_text(param.name, values[i]));
  }
  if (!changes.empty())
    grounds.notes.push_back(fmt::format("differs between the runs: {}", fmt::join(changes, ", ")));
  return grounds;
}

// A trial in a group of paired trials, with the values of the params that differ between repetitions.
struct Member {
  const ResultRow* row;
  std::string repeat;
};
using Cell = std::vector<Member>;
struct PairGroup {
  const ResultRow* first = nullptr;
  std::size_t first_run = 0;
  std::vector<Cell> runs;
};

std::vector<PairGroup> pair_groups_of(std::span<const Results> runs, const Grounds& grounds) {
  const Key key(grounds);
  std::vector<PairGroup> groups;
  std::unordered_map<std::string, std::size_t> by_key;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    for (const ResultRow& row : runs[run].rows) {
      if (!has_succeeded(row)) continue;
      const auto [at, is_new] = by_key.try_emplace(key.of(run, row), groups.size());
      if (is_new) groups.push_back({.first = &row, .first_run = run, .runs = std::vector<Cell>(runs.size())});
      groups[at->second].runs[run].push_back({.row = &row, .repeat = key.repeat_of(run, row)});
    }
  }
  return groups;
}

// ---- One metric

struct Numbers {
  std::vector<double> values;
  std::vector<std::string> repeats;
};

Numbers numbers_of(const Cell& cell, const std::optional<Column>& column) {
  Numbers numbers;
  if (!column) return numbers;
  for (const Member& member : cell) {
    const Value value = value_in(*member.row, *column);
    const auto* number = std::get_if<double>(&value);
    if (number == nullptr || !std::isfinite(*number)) continue;
    numbers.values.push_back(*number);
    numbers.repeats.push_back(member.repeat);
  }
  return numbers;
}

// If `one` and `other` have the same repetitions, each exactly once, returns the values of both in the same
// order of repetitions. Otherwise returns nullopt.
std::optional<std::pair<std::vector<double>, std::vector<double>>> matched(const Numbers& one,
                                                                           const Numbers& other) {
  if (one.values.size() != other.values.size() || one.values.size() < 2) return std::nullopt;
  std::map<std::string_view, std::pair<const double*, const double*>> both;
  for (std::size_t i = 0; i < one.values.size(); ++i) both[one.repeats[i]].first = &one.values[i];
  for (std::size_t i = 0; i < other.values.size(); ++i) both[other.repeats[i]].second = &other.values[i];
  if (both.size() != one.values.size()) return std::nullopt;
  std::pair<std::vector<double>, std::vector<double>> values;
  for (const auto& [repeat, pair] : both) {
    if (pair.first == nullptr || pair.second == nullptr) return std::nullopt;
    values.first.push_back(*pair.first);
    values.second.push_back(*pair.second);
  }
  return values;
}

Difference difference_of(const Numbers& one, const Numbers& other) {
  if (const auto pairs = matched(one, other)) return paired_difference(pairs->first, pairs->second);
  return welch_difference(sample_of(one.values), sample_of(other.values));
}

// Adds notes about the successful trials of a run that have no value, or a value that is not finite.
void add_missing(PairTable& table, const Results& run, const std::optional<Column>& column) {
  std::vector<std::string> without;
  std::vector<std::string> no_number;
  for (const ResultRow& row : run.rows) {
    if (!has_succeeded(row)) continue;
    const Value value = column ? value_in(row, *column) : Value();
    if (std::holds_alternative<std::monostate>(value)) without.push_back(row.trial.name);
    const auto* number = std::get_if<double>(&value);
    if (number != nullptr && !std::isfinite(*number)) no_number.push_back(row.trial.name);
  }
  const auto note = [&](const std::vector<std::string>& names, std::string_view why) {
    if (!names.empty())
      table.notes.push_back(fmt::format("left out of run {}: {} {} ({})", run.run.id.text(),
                                        number_of(names.size(), "trial"), why,
                                        list_text(names, k_named_max)));
  };
  note(without, "without a value");
  note(no_number, "whose value is not a number");
}

void add_unpaired(PairTable& table, std::span<const Results> runs,
                  const std::vector<const PairGroup*>& alone) {
  for (std::size_t run = 0; run < runs.size(); ++run) {
    std::vector<std::string> names;
    for (const PairGroup* group : alone)
      for (const Member& member : group->runs[run]) names.push_back(member.row->trial.name);
    if (!names.empty())
      table.notes.push_back(fmt::format("only in run {}: {} ({})", runs[run].run.id.text(),
                                        number_of(names.size(), "trial"), list_text(names, k_named_max)));
  }
}

void add_overall(PairTable& table, std::size_t run_count) {
  for (std::size_t run = 1; run < run_count; ++run) {
    std::vector<double> one;
    std::vector<double> other;
    for (const Pair& pair : table.pairs) {
      if (pair.samples.front().count == 0 || pair.samples[run].count == 0) continue;
      one.push_back(pair.samples.front().mean);
      other.push_back(pair.samples[run].mean);
    }
    table.overall_count.push_back(one.size());
    table.overall.push_back(paired_difference(one, other));
  }
}

// Moves params that are equal in all pairs to `shared`, so that the table shows only params that differ
// between pairs.
void split_params(PairTable& table, const std::vector<const Param*>& params) {
  const bool is_single = table.pairs.size() == 1 && !table.by_name;
  std::vector<bool> differs(params.size());
  for (const Pair& pair : table.pairs)
    for (std::size_t i = 0; i < differs.size(); ++i)
      differs[i] = differs[i] || (is_single && is_there(pair.params[i])) ||
                   pair.params[i] != table.pairs.front().params[i];
  for (std::size_t i = 0; i < differs.size(); ++i) {
    if (differs[i]) {
      table.params.push_back(params[i]->name);
    } else if (!table.pairs.empty() && is_there(table.pairs.front().params[i])) {
      table.shared.emplace_back(params[i]->name, table.pairs.front().params[i]);
    }
  }
  for (Pair& pair : table.pairs) {
    std::vector<Value> kept;
    for (std::size_t i = 0; i < differs.size(); ++i)
      if (differs[i]) kept.push_back(std::move(pair.params[i]));
    pair.params = std::move(kept);
  }
}

Pair pair_of(const PairGroup& group, const std::vector<const Param*>& params,
             const std::vector<std::optional<Column>>& columns) {
  Pair pair;
  for (const Param* param : params)
    pair.params.push_back(value_at(*group.first, param->places[group.first_run]));
  if (!has_params(*group.first)) pair.trial = group.first->trial.name;
  std::vector<Numbers> numbers;
  for (std::size_t run = 0; run < columns.size(); ++run) {
    numbers.push_back(numbers_of(group.runs[run], columns[run]));
    pair.samples.push_back(sample_of(numbers.back().values));
    if (run > 0) pair.differences.push_back(difference_of(numbers.front(), numbers.back()));
  }
  return pair;
}

// Explains why no trials of two runs could be paired.
std::string nothing_paired(std::span<const Results> runs, const std::vector<const Param*>& params) {
  std::vector<std::string> apart;
  for (const Param* param : params) {
    const std::set<Value> first = values_in(runs.front(), param->places.front());
    bool meets = false;
    for (std::size_t run = 1; run < runs.size(); ++run) {
      const std::set<Value> other = values_in(runs[run], param->places[run]);
      meets = meets || first.empty() || other.empty() ||
              std::ranges::any_of(first, [&](const Value& value) { return other.contains(value); });
    }
    if (!meets) apart.push_back(param->name);
  }
  if (apart.empty()) return "nothing is paired: no trials of two runs have the same params";
  return fmt::format(
      "nothing is paired: no value of {} is in two runs; `--over {}` treats trials that differ in these "
      "params as repeats",
      fmt::join(apart, ", "), fmt::join(apart, ","));
}

PairTable compare_metric(std::span<const Results> runs, const std::string& metric, const Grounds& grounds,
                         const std::vector<PairGroup>& groups) {
  std::vector<std::optional<Column>> columns;
  bool known = false;
  for (const Results& run : runs) {
    columns.push_back(find_column(run, metric));
    known = known || columns.back();
  }
  if (!known) (void)expect_column(runs.front(), metric, "--metric");
  PairTable table{.metric = metric, .notes = grounds.notes};
  const std::vector<const Param*> params = grounds.of(Role::alike);
  std::vector<const PairGroup*> alone;
  for (const PairGroup& group : groups) {
    Pair pair = pair_of(group, params, columns);
    const auto among = std::ranges::count_if(pair.samples, [](const Sample& one) { return one.count > 0; });
    if (among == 0) continue;
    if (among == 1 && runs.size() > 1) {
      alone.push_back(&group);
    } else {
      table.by_name = table.by_name || !pair.trial.empty();
      table.pairs.push_back(std::move(pair));
    }
  }
  if (table.pairs.empty() && !alone.empty()) table.notes.push_back(nothing_paired(runs, params));
  split_params(table, params);
  add_overall(table, runs.size());
  add_unpaired(table, runs, alone);
  for (std::size_t run = 0; run < runs.size(); ++run) add_missing(table, runs[run], columns[run]);
  return table;
}

// Returns the metrics to compare. If a param or field of any run has the same name as a metric, the metric is
// named "metrics.NAME".
std::vector<std::string> metrics_meant(std::span<const Results> runs, const CompareForm& form) {
  if (!form.metrics.empty()) return form.metrics;
  std::set<std::string> metrics;
  for (const Results& run : runs) metrics.insert(run.metrics.begin(), run.metrics.end());
  std::vector<std::string> names;
  for (const std::string& metric : metrics) {
    const bool is_plain = std::ranges::all_of(runs, [&](const Results& run) {
      const auto column = find_column(run, metric);
      return !column || column->of == Column::Of::metric;
    });
    names.push_back(is_plain ? metric : "metrics." + metric);
  }
  return names;
}

}  // namespace

std::vector<PairTable> compare(std::span<const Results> runs, const CompareForm& form) {
  Grounds grounds = grounds_of(runs, form.over);
  for (const Results& run : runs) {
    if (run.run.engine.is_simulated)
      grounds.notes.push_back(
          fmt::format("run {} is simulated: its results are not measured", run.run.id.text()));
    TrialCounts others{};
    for (const ResultRow& row : run.rows)
      if (!has_succeeded(row)) ++others.at(static_cast<std::size_t>(row.trial.state));
    if (const std::string counts = counts_text(others); !counts.empty())
      grounds.notes.push_back(fmt::format("left out of run {}: {}", run.run.id.text(), counts));
  }
  const std::vector<PairGroup> groups = pair_groups_of(runs, grounds);
  std::vector<PairTable> tables;
  for (const std::string& metric : metrics_meant(runs, form))
    tables.push_back(compare_metric(runs, metric, grounds, groups));
  return tables;
}

}  // namespace combu
