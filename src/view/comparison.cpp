#include "view/comparison.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <unordered_map>

#include "view/columns.hpp"
#include "view/numbers.hpp"

namespace combu {
namespace {

constexpr std::size_t k_named_max = 5;

std::string names_text(const std::vector<std::string>& names) {
  const std::size_t shown = std::min(names.size(), k_named_max);
  std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<long>(shown), ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

std::string trials_text(std::size_t count) {
  return fmt::format("{} trial{}", count, count == 1 ? "" : "s");
}

// Two values are one key only if they are equal.
std::string key_of(const Value& value) {
  return fmt::format("{}:{}", value.index(), whole_text(value));
}

bool has_succeeded(const ResultRow& row) {
  return row.trial.state == TrialState::succeeded;
}

// Where each run has a param; nullopt where it does not.
using Places = std::vector<std::optional<std::size_t>>;

std::optional<std::size_t> place_of(const std::vector<std::string>& names, const std::string& name) {
  const auto at = std::ranges::lower_bound(names, name);
  if (at == names.end() || *at != name) return std::nullopt;
  return static_cast<std::size_t>(at - names.begin());
}

Value value_at(const ResultRow& row, const std::optional<std::size_t>& place) {
  return place ? row.params[*place] : Value();
}

// The only value that a run's trials have of a param; nullopt where they have several.
std::optional<std::string> only_value(const Results& run, const std::optional<std::size_t>& place) {
  std::optional<std::string> only;
  for (const ResultRow& row : run.rows) {
    if (!has_succeeded(row)) continue;
    std::string key = key_of(value_at(row, place));
    if (only && *only != key) return std::nullopt;
    only = std::move(key);
  }
  return only;
}

// What pairs are made of.
struct Grounds {
  std::vector<std::string> params;
  std::vector<Places> places;       // by param, then run
  std::vector<std::string> over;    // of those asked for, that there are
  std::vector<Places> over_places;  // like `places`
  std::vector<std::string> notes;
};

Places places_of(std::span<const Results> runs, const std::string& name) {
  Places places;
  for (const Results& run : runs) places.push_back(place_of(run.params, name));
  return places;
}

// One value in each run, and not the same in all of them: "sgd → adam".
std::optional<std::string> change_between(std::span<const Results> runs, const Places& places) {
  std::vector<std::string> values;
  std::set<std::string> keys;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    const auto only = only_value(runs[run], places[run]);
    if (!only) return std::nullopt;
    keys.insert(*only);
    const std::string text = only->substr(only->find(':') + 1);
    values.push_back(text.empty() ? "–" : text);
  }
  if (keys.size() < 2) return std::nullopt;
  return fmt::format("{}", fmt::join(values, " → "));
}

Grounds grounds_of(std::span<const Results> runs, const std::vector<std::string>& over) {
  std::set<std::string> names;
  for (const Results& run : runs) names.insert(run.params.begin(), run.params.end());
  Grounds grounds;
  std::vector<std::string> changes;
  for (const std::string& name : names) {
    Places places = places_of(runs, name);
    if (std::ranges::find(over, name) != over.end()) {
      grounds.over.push_back(name);
      grounds.over_places.push_back(std::move(places));
      continue;
    }
    if (runs.size() > 1) {
      if (const auto change = change_between(runs, places)) {
        changes.push_back(fmt::format("{} {}", name, *change));
        continue;
      }
    }
    grounds.params.push_back(name);
    grounds.places.push_back(std::move(places));
  }
  if (!changes.empty())
    grounds.notes.push_back(fmt::format("differs between the runs: {}", fmt::join(changes, ", ")));
  return grounds;
}

// The trials of a pair, of one run.
struct Member {
  const ResultRow* row;
  std::string repeat;  // the key of its `over`
};
using Cell = std::vector<Member>;
struct Group {
  const ResultRow* first = nullptr;
  std::size_t first_run = 0;
  std::vector<Cell> runs;
};

class Grouping {
 public:
  Grouping(std::span<const Results> runs, const Grounds& grounds) : grounds_(grounds) {
    for (std::size_t run = 0; run < runs.size(); ++run)
      for (const ResultRow& row : runs[run].rows)
        if (has_succeeded(row)) add(run, row, runs.size());
  }
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
  [[nodiscard]] bool by_name() const { return by_name_; }

 private:
  void add(std::size_t run, const ResultRow& row, std::size_t run_count) {
    key_.clear();
    bool any = false;
    for (const Places& places : grounds_.places) any = add_to_key(row, places[run]) || any;
    const bool any_over = std::ranges::any_of(grounds_.over_places, [&](const Places& places) {
      return !std::holds_alternative<std::monostate>(value_at(row, places[run]));
    });
    if (!any && !any_over && row.trial.params.size() <= k_no_params) {
      key_ += row.trial.name;
      by_name_ = true;
    }
    const auto [at, is_new] = by_key_.try_emplace(key_, groups_.size());
    if (is_new) groups_.push_back({.first = &row, .first_run = run, .runs = std::vector<Cell>(run_count)});
    std::string repeat;
    for (const Places& places : grounds_.over_places) repeat += key_of(value_at(row, places[run])) + '\n';
    groups_[at->second].runs[run].push_back({.row = &row, .repeat = std::move(repeat)});
  }

  // Whether there is a value.
  bool add_to_key(const ResultRow& row, const std::optional<std::size_t>& place) {
    const Value value = value_at(row, place);
    key_ += key_of(value);
    key_ += '\n';
    return !std::holds_alternative<std::monostate>(value);
  }

  static constexpr std::size_t k_no_params = 2;  // "" and "{}"

  const Grounds& grounds_;
  std::string key_;
  std::unordered_map<std::string, std::size_t> by_key_;
  std::vector<Group> groups_;
  bool by_name_ = false;
};

// ---- One metric

struct Values {
  std::vector<double> numbers;
  std::vector<std::string> repeats;
};

Values values_of(const Cell& cell, const std::optional<Column>& column) {
  Values values;
  if (!column) return values;
  for (const Member& member : cell) {
    const Value value = value_in(*member.row, *column);
    const auto* number = std::get_if<double>(&value);
    if (number == nullptr || !std::isfinite(*number)) continue;
    values.numbers.push_back(*number);
    values.repeats.push_back(member.repeat);
  }
  return values;
}

// The values of both whose repeats are the same ones, each once; nullopt where they are others.
std::optional<std::pair<std::vector<double>, std::vector<double>>> matched(const Values& one,
                                                                           const Values& other) {
  if (one.numbers.size() != other.numbers.size() || one.numbers.size() < 2) return std::nullopt;
  std::map<std::string_view, std::pair<const double*, const double*>> both;
  for (std::size_t i = 0; i < one.numbers.size(); ++i) both[one.repeats[i]].first = &one.numbers[i];
  for (std::size_t i = 0; i < other.numbers.size(); ++i) both[other.repeats[i]].second = &other.numbers[i];
  if (both.size() != one.numbers.size()) return std::nullopt;
  std::pair<std::vector<double>, std::vector<double>> values;
  for (const auto& [repeat, pair] : both) {
    if (pair.first == nullptr || pair.second == nullptr) return std::nullopt;
    values.first.push_back(*pair.first);
    values.second.push_back(*pair.second);
  }
  return values;
}

Difference difference_of(const Values& one, const Values& other) {
  if (const auto pairs = matched(one, other)) return paired_difference(pairs->first, pairs->second);
  return welch_difference(sample_of(one.numbers), sample_of(other.numbers));
}

// What a run's trials lack.
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
                                        trials_text(names.size()), why, names_text(names)));
  };
  note(without, "without it");
  note(no_number, "whose value is no number");
}

void add_unpaired(PairTable& table, std::span<const Results> runs, const std::vector<const Group*>& alone) {
  for (std::size_t run = 0; run < runs.size(); ++run) {
    std::vector<std::string> names;
    for (const Group* group : alone)
      for (const Member& member : group->runs[run]) names.push_back(member.row->trial.name);
    if (!names.empty())
      table.notes.push_back(fmt::format("only in run {}: {} ({})", runs[run].run.id.text(),
                                        trials_text(names.size()), names_text(names)));
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

// Shows the params in which the pairs differ, and keeps the others apart.
void split_params(PairTable& table, const Grounds& grounds) {
  std::vector<bool> differs(grounds.params.size(), table.pairs.size() == 1 && !table.by_name);
  for (const Pair& pair : table.pairs)
    for (std::size_t i = 0; i < differs.size(); ++i)
      differs[i] = differs[i] || pair.params[i] != table.pairs.front().params[i];
  for (std::size_t i = 0; i < differs.size(); ++i) {
    if (differs[i]) {
      table.params.push_back(grounds.params[i]);
    } else if (!table.pairs.empty() &&
               !std::holds_alternative<std::monostate>(table.pairs.front().params[i])) {
      table.shared.emplace_back(grounds.params[i], table.pairs.front().params[i]);
    }
  }
  for (Pair& pair : table.pairs) {
    std::vector<Value> kept;
    for (std::size_t i = 0; i < differs.size(); ++i)
      if (differs[i]) kept.push_back(std::move(pair.params[i]));
    pair.params = std::move(kept);
  }
}

Pair pair_of(const Group& group, const Grounds& grounds, const std::vector<std::optional<Column>>& columns,
             bool by_name) {
  Pair pair;
  for (const Places& places : grounds.places)
    pair.params.push_back(value_at(*group.first, places[group.first_run]));
  if (by_name) pair.trial = group.first->trial.name;
  std::vector<Values> values;
  for (std::size_t run = 0; run < columns.size(); ++run) {
    values.push_back(values_of(group.runs[run], columns[run]));
    pair.samples.push_back(sample_of(values.back().numbers));
    if (run > 0) pair.differences.push_back(difference_of(values.front(), values.back()));
  }
  return pair;
}

PairTable compare_metric(std::span<const Results> runs, const std::string& metric, const Grounds& grounds,
                         const Grouping& grouping) {
  std::vector<std::optional<Column>> columns;
  bool known = false;
  for (const Results& run : runs) {
    columns.push_back(find_column(run, metric));
    known = known || columns.back();
  }
  if (!known) (void)expect_column(runs.front(), metric, "--metric");
  PairTable table{.metric = metric, .by_name = grouping.by_name(), .notes = grounds.notes};
  std::vector<const Group*> alone;
  for (const Group& group : grouping.groups()) {
    Pair pair = pair_of(group, grounds, columns, grouping.by_name());
    const auto among = std::ranges::count_if(pair.samples, [](const Sample& one) { return one.count > 0; });
    if (among == 0) continue;
    if (among == 1 && runs.size() > 1) {
      alone.push_back(&group);
    } else {
      table.pairs.push_back(std::move(pair));
    }
  }
  split_params(table, grounds);
  add_overall(table, runs.size());
  add_unpaired(table, runs, alone);
  for (std::size_t run = 0; run < runs.size(); ++run) add_missing(table, runs[run], columns[run]);
  return table;
}

std::vector<std::string> metrics_meant(std::span<const Results> runs, const CompareForm& form) {
  if (!form.metrics.empty()) return form.metrics;
  std::set<std::string> names;
  for (const Results& run : runs)
    for (std::size_t i = 0; i < run.metrics.size(); ++i) names.insert(metric_column(run, i).name);
  return {names.begin(), names.end()};
}

}  // namespace

std::vector<PairTable> compare(std::span<const Results> runs, const CompareForm& form) {
  Grounds grounds = grounds_of(runs, form.over);
  for (const Results& run : runs) {
    const auto others = static_cast<std::size_t>(
        std::ranges::count_if(run.rows, [](const ResultRow& row) { return !has_succeeded(row); }));
    if (others > 0)
      grounds.notes.push_back(fmt::format("left out of run {}: {} that {} not succeeded", run.run.id.text(),
                                          trials_text(others), others == 1 ? "has" : "have"));
  }
  const Grouping grouping(runs, grounds);
  std::vector<PairTable> tables;
  for (const std::string& metric : metrics_meant(runs, form))
    tables.push_back(compare_metric(runs, metric, grounds, grouping));
  return tables;
}

}  // namespace combu
