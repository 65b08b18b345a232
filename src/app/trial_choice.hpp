#pragma once
// Chooses the trials that `ps` shows, by names and a condition, among recorded trials and containers.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "combu/analysis.hpp"
#include "combu/engine.hpp"

namespace combu {

class TrialChoice {
 public:
  // `names`: names and patterns of names; none: all trials. `where`: a condition; empty: none. Throws
  // Error(invalid).
  TrialChoice(std::vector<std::string> names, const std::string& where);

  [[nodiscard]] bool has_condition() const { return where_.has_value(); }
  // If the choice is a single name that is not a pattern, returns the name. Otherwise returns an empty text.
  [[nodiscard]] std::string single() const;
  // Returns the names and patterns that match neither a row nor a container.
  [[nodiscard]] std::vector<std::string> unmatched(const std::vector<TrialRow>& rows,
                                                   const std::vector<Observation>& containers) const;
  // Removes the rows that are not chosen. Returns the names in the condition for which no row has a value.
  std::set<std::string> apply(const RunEntry& run, std::vector<TrialRow>& rows) const;
  void apply(std::vector<Observation>& containers) const;

 private:
  std::vector<std::string> names_;
  std::optional<Filter> where_;
};

}  // namespace combu
