#pragma once
// What the threads of the executor post to the thread that drives the run.

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "combu/run.hpp"

namespace combu {

// The engine does not answer any more, although its own retries were spent.
struct EngineLost {
  Error error;
};
// The last lines of a failed attempt's log.
struct LogTail {
  TrialIndex trial;
  std::vector<std::string> lines;
};
// A look at an attempt that runs: its usage, and the log that it has written since the last look.
struct PollUsage {
  TrialIndex trial;
  int attempt;
  std::string id;  // the engine's
  Seconds pause;   // before this look
};
struct UsagePolled {
  PollUsage poll;
  std::optional<Usage> usage;  // nullopt: the engine has none
  Bytes log_growth;
  Seconds took{0};
};
// Stores the rest of the log of an attempt that has ended.
struct IngestLog {
  TrialIndex trial;
  int attempt;
  int tries = 0;  // that failed
};
struct LogIngested {
  IngestLog order;
  std::string fault;  // empty: the log is stored
};
// From here on logs cannot be stored, or can again.
struct LogStorageChanged {
  std::string fault;  // empty: they can
};
// A line about a trial, for a person.
struct TrialNote {
  TrialIndex trial;
  std::string text;
};
struct OutputsCollected {
  TrialIndex trial;
  int attempt;
  CollectionResult taken;
};
// The outputs of a running attempt were collected so far, or not, for the reason `fault`.
struct PartCollected {
  TrialIndex trial;
  std::string fault;
};
struct CacheLookedUp {
  std::vector<CacheResult> results;
};

using Message = std::variant<Event, EngineLost, LogTail, UsagePolled, LogIngested, LogStorageChanged,
                             TrialNote, OutputsCollected, PartCollected, CacheLookedUp, Steering::Order>;

}  // namespace combu
