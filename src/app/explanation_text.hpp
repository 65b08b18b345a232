#pragma once
// Explains a trial's state to a person: what the trial waits for, or why the trial ended.

#include <functional>
#include <optional>
#include <vector>

#include "app/load.hpp"
#include "combu/engine.hpp"
#include "combu/progress.hpp"
#include "combu/record.hpp"
#include "combu/schedule.hpp"

namespace combu {

// A run, and the data that explain the states of its trials.
struct ExplainedRun {
  const Loaded& loaded;
  const std::vector<RestoredTrial>& restored;  // the state of each trial of `loaded`
  // The settings of the run's owner; nullopt: use the settings in the file.
  const std::optional<Settings>& settings;
  // The owner's snapshot, with the capacity and the slots that other runs hold; nullopt: unknown.
  const std::optional<Snapshot>& snapshot;
  std::vector<StartLimit> limits = {};  // Engine::limits(); empty if unknown
  // Returns the attempts of other runs that hold slots. Called only if the trial waits for slots.
  std::function<std::vector<Observation>()> others;
  // Returns the last line of an attempt's log. Called only if the trial failed or was stopped.
  LastLine last_line;
  // Returns why the trial's attempt waits on the engine; empty if unknown. Called only if the attempt is
  // being started.
  std::function<std::string()> pending_reason;
  Record& record;
};

// Returns one line to print after the trial's name, such as "waits for 2 CPUs; held by `long` (2 CPUs)". The
// function explain() of the planner determines why a trial does not start. Throws Error if the record cannot
// be read.
[[nodiscard]] std::string explanation_text(const ExplainedRun& run, TrialIndex trial);

}  // namespace combu
