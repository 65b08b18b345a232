#pragma once
// Shows JSON lines of progress on another Progress.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <unordered_map>

#include "combu/progress.hpp"

namespace combu::control {

class Replay {
 public:
  // Fills `run` from the lines. Its trials are in the order in which the lines first name them.
  Replay(Progress& progress, Run& run);

  // Shows one line. Returns the exit code if the line is the last one, else nullopt. Ignores unknown events,
  // which a newer combu may send. Throws nlohmann's exceptions or Error if the line is invalid.
  [[nodiscard]] std::optional<int> show(const nlohmann::json& line);

 private:
  void begin(const nlohmann::json& line);
  [[nodiscard]] TrialIndex trial(const std::string& name);
  [[nodiscard]] Fact fact(const nlohmann::json& line);
  void show_fact(const nlohmann::json& line);
  void show_tail(const nlohmann::json& line);
  [[nodiscard]] Snapshot snapshot(const nlohmann::json& line);

  Progress& progress_;
  Run& run_;
  std::unordered_map<std::string, TrialIndex> by_name_;
  std::unordered_map<TrialIndex, Fact> failures_;  // failed trials whose last log lines are still to come
};

}  // namespace combu::control
