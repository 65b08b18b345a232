#pragma once
// Class Replay: shows the progress that another process has sent as JSON lines.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <unordered_map>

#include "combu/progress.hpp"

namespace combu::control {

class Replay {
 public:
  // Fills `run` from the JSON lines. The trials of `run` are in the order in which the lines first name them.
  Replay(Progress& progress, Run& run);

  // Parses one JSON line, and shows the progress that this line reports. Returns the exit code if the line is
  // the last line, else nullopt. Ignores events that this version of combu does not know, because a newer
  // version may send them. Throws nlohmann's exceptions or Error if the line is invalid.
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
  // The failed trials, each with the fact of its failure, for which the line with the end of the log is still
  // missing.
  std::unordered_map<TrialIndex, Fact> failures_;
};

}  // namespace combu::control
