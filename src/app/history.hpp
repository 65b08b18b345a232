#pragma once
// Reads the history of a run from the record: the events of the run, and how long each phase of its attempts
// took.

#include <functional>
#include <string>
#include <vector>

#include "combu/analysis.hpp"
#include "combu/record.hpp"
#include "combu/session.hpp"

namespace combu {

struct HistoryOptions {
  std::string run;    // the run's id; empty: the last run of the file
  std::string trial;  // empty: all trials
};

// Calls `sink` with each event, in the order of Record::events(), until `sink` returns false. Throws
// Error(not_found) if the run or the trial is not on record.
void read_events(const Invocation& invocation, const HistoryOptions& options,
                 const std::function<bool(const EventEntry&)>& sink);

// Returns at most `count_max` runs of the file, the newest first. Throws Error(not_found) if no run of the
// file is on record.
[[nodiscard]] std::vector<RunId> recent_runs(const Invocation& invocation, std::size_t count_max);

struct RunTimes {
  RunEntry run;
  std::vector<TimedAttempt> attempts;
};
// Returns the attempts of a run, each with the durations of its phases. Throws Error(not_found) if the run is
// not on record, or if the trial has no attempt in the run.
[[nodiscard]] RunTimes read_times(const Invocation& invocation, const HistoryOptions& options);

}  // namespace combu
