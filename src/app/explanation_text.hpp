#pragma once
// The text of a trial's state for a person, with what it waits for or why it ended.

#include <functional>
#include <optional>
#include <vector>

#include "app/load.hpp"
#include "combu/engine.hpp"
#include "combu/progress.hpp"
#include "combu/record.hpp"
#include "combu/schedule.hpp"

namespace combu {

// A run, and what is known of it.
struct ExplainedRun {
  const Loaded& loaded;
  const std::vector<RestoredTrial>& restored;  // of the trials of `loaded`
  // In force at the process that drives the run; nullopt: as the file says.
  const std::optional<Settings>& settings;
  // Its capacity and what other runs hold; nullopt: not known.
  const std::optional<Snapshot>& snapshot;
  // Returns the attempts of other runs that hold slots. Called only for a trial that waits for slots.
  std::function<std::vector<Observation>()> others;
  // Called only for a trial that failed or was stopped.
  LastLine last_line;
  Record& record;
};

// One line that goes on after the trial's name: "waits for 2 CPUs; held by `long` (2 CPUs)". Why a trial does
// not start is what explain() says. Throws Error if the record cannot be read.
[[nodiscard]] std::string explanation_text(const ExplainedRun& run, TrialIndex trial);

}  // namespace combu
