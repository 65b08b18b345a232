#pragma once
// An index of trials by name, and errors about duplicate and unknown names.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "combu/plan.hpp"

namespace combu::plan {

// Returns the path of the trial in the evaluated file, for messages.
[[nodiscard]] std::string path_of(const Trial& trial, TrialIndex at);

class Names {
 public:
  // Indexes the trials; adds one error for each name that several trials have.
  Names(const Experiment& experiment, std::vector<Error>& errors);
  // Returns the first trial named `name`; nullopt if there is none.
  [[nodiscard]] std::optional<TrialIndex> find(std::string_view name) const;
  [[nodiscard]] const std::vector<std::string_view>& all() const { return all_; }

 private:
  std::unordered_map<std::string_view, TrialIndex> index_;
  std::vector<std::string_view> all_;
};

// Collects dependencies on names that no trial has. All dependencies on the same unknown name are reported as
// one error.
class UnknownNames {
 public:
  explicit UnknownNames(const Names& names) : names_(names) {}
  void add(const Trial& trial, const Depend& depend);
  void report(std::vector<Error>& errors) const;

 private:
  struct Unknown {
    const Trial* trial;
    const Depend* depend;
    std::size_t more = 0;
  };
  const Names& names_;
  std::vector<Unknown> unknown_;
  std::unordered_map<std::string_view, std::size_t> index_;
};

}  // namespace combu::plan
