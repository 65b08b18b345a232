#pragma once
// What there is of a run's trials to show, to sort by and to choose from, by name.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "combu/view.hpp"

namespace combu {

struct Column {
  enum class Of { field, param, metric };
  enum class Part { last, least, greatest, points };
  Of of = Of::field;
  std::size_t index = 0;  // of the param or the metric
  Part part = Part::last;
  std::string name;  // by which it is found in these results

  bool operator==(const Column&) const = default;
};

// Of a param's or a metric's name among a run's.
[[nodiscard]] std::optional<std::size_t> index_of(const std::vector<std::string>& names,
                                                  std::string_view name);

// As view.hpp says. nullopt: there is none.
[[nodiscard]] std::optional<Column> find_column(const Results& results, std::string_view name);
// Throws Error(invalid), of `subject`.
[[nodiscard]] Column expect_column(const Results& results, std::string_view name, std::string_view subject);

// Whether a field of the trial is called so.
[[nodiscard]] bool is_field(std::string_view name);

[[nodiscard]] Column field_column(std::string_view name);
[[nodiscard]] Column param_column(const Results& results, std::size_t index);
[[nodiscard]] Column metric_column(const Results& results, std::size_t index);

[[nodiscard]] Value value_in(const ResultRow& row, const Column& column);

// How long it ran, or has run; nullopt: it has not, or that is not known.
[[nodiscard]] std::optional<Seconds> time_of(const TrialEntry& entry, Instant now);

// The params that are the same for all of several trials.
[[nodiscard]] std::vector<bool> params_shared(const Results& results);

}  // namespace combu
