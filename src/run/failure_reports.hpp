#pragma once
// Reports of failures for users. A report consists of a fact and the last lines of the attempt's log; either
// of the two may arrive first.

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "combu/run.hpp"

namespace combu {

// Belongs to one thread.
class FailureReports {
 public:
  struct Report {
    Fact fact;
    std::vector<std::string> tail;
  };

  // Registers that the last lines of an attempt's log will be read. After the first k_tails_max failures,
  // clears `command.tail` instead.
  void expect_tail(CollectCommand& command) {
    if (command.tail && ++tails_ > k_tails_max) command.tail = false;
    if (command.tail) open_.insert_or_assign(command.trial, Open());
  }

  // True if the last lines of the trial's log have been asked for, and have not arrived.
  [[nodiscard]] bool awaits_tail(TrialIndex trial) const {
    const auto at = open_.find(trial);
    return at != open_.end() && !at->second.tail;
  }

  // Call this when an attempt has failed. Returns the report if no log lines are expected, or if the expected
  // lines have arrived.
  [[nodiscard]] std::optional<Report> add(const Fact& fact) {
    const auto at = open_.find(fact.trial);
    if (at == open_.end()) return Report{.fact = fact, .tail = {}};
    if (at->second.tail) return Report{.fact = fact, .tail = *open_.extract(at).mapped().tail};
    at->second.fact = fact;
    return std::nullopt;
  }

  // Call this when the last lines of the log have been read; `tail` is empty if the log has no lines. Returns
  // the report if the fact of the failure has arrived.
  [[nodiscard]] std::optional<Report> add_tail(TrialIndex trial, const std::vector<std::string>& tail) {
    const auto at = open_.find(trial);
    if (at == open_.end() || at->second.tail) return std::nullopt;
    at->second.tail = tail;
    if (!at->second.fact) return std::nullopt;
    const Open open = open_.extract(at).mapped();
    return Report{.fact = *open.fact, .tail = *open.tail};
  }

  // At the end of the run, returns the reports whose log lines have not arrived.
  [[nodiscard]] std::vector<Report> rest() {
    std::vector<Report> reports;
    for (const auto& [trial, open] : std::exchange(open_, {}))
      if (open.fact) reports.push_back({.fact = *open.fact, .tail = {}});
    return reports;
  }

 private:
  static constexpr std::size_t k_tails_max = 20;  // number of failures that combu shows with log lines

  struct Open {
    std::optional<Fact> fact;
    std::optional<std::vector<std::string>> tail;
  };
  std::unordered_map<TrialIndex, Open> open_;
  std::size_t tails_ = 0;
};

}  // namespace combu
