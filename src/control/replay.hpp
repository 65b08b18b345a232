#pragma once
// Lines of progress, as JSON, shown again on another Progress.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <unordered_map>

#include "combu/progress.hpp"

namespace combu::control {

class Replay {
 public:
  // `run` is filled with what is told of it, its trials in the order in which they are named first.
  Replay(Progress& progress, Run& run);

  // The exit code, of the last line. Events that it does not know, of a newer combu, are passed over. Throws
  // nlohmann's exceptions, and Error, for what makes no sense.
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
  std::unordered_map<TrialIndex, Fact> failures_;  // facts whose log's last lines follow
};

}  // namespace combu::control
