#pragma once
// The messages that the executor's threads post to the thread that drives the run.

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "combu/run.hpp"

namespace combu {

// The engine is unavailable, and with_retry() does not repeat the call any more.
struct EngineLost {
  Error error;
};
// The last lines of a failed attempt's log.
struct LogTail {
  TrialIndex trial;
  std::vector<std::string> lines;
};
// Polls a running attempt: reads its usage and the lines that it has logged since the last poll.
struct PollUsage {
  TrialIndex trial;
  int attempt;
  std::string id;  // the engine's id of the attempt
  Seconds pause;   // the pause before this poll
};
struct UsagePolled {
  PollUsage poll;
  std::optional<Usage> usage;  // nullopt if the engine reports no usage
  Bytes log_growth;
  Seconds took{0};
};
// Stores the rest of the log of an attempt that has ended.
struct IngestLog {
  TrialIndex trial;
  int attempt;
  int tries = 0;  // number of failed tries to store the log
};
struct LogIngested {
  IngestLog order;
  std::string fault;  // why the log could not be stored; empty: the log is stored
};
// Storing logs begins to fail, or works again.
struct LogStorageChanged {
  std::string fault;  // why storing fails; empty: storing works again
};
// A note about a trial, for the user.
struct TrialNote {
  TrialIndex trial;
  std::string text;
};
struct OutputsCollected {
  TrialIndex trial;
  int attempt;
  CollectionResult collection;
};
// A collection of partial outputs of a running attempt has ended. `fault`: why the collection failed; empty:
// it succeeded.
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
