#pragma once
// Reads the history of a run from the record: its events, and where its attempts spent their time.

#include <functional>
#include <string>
#include <vector>

#include "combu/analysis.hpp"
#include "combu/record.hpp"
#include "combu/session.hpp"

namespace combu {

struct HistoryOptions {
  std::string run;    // its id; empty: the last one of the file
  std::string trial;  // only of this trial; empty: of all
};

// Calls `tell` with each event, in the order of Record::events(), until it returns false. Throws Error:
// not_found for a run or a trial that is not on record.
void tell_events(const Invocation& invocation, const HistoryOptions& options,
                 const std::function<bool(const EventEntry&)>& tell);

struct RunTimes {
  RunEntry run;
  std::vector<TimedAttempt> attempts;
};
// Throws Error: not_found for a run that is not on record, or a trial that has no attempt in it.
[[nodiscard]] RunTimes read_times(const Invocation& invocation, const HistoryOptions& options);

}  // namespace combu
