#pragma once
// The use case of `ps`: reports the trials of a run, containers whose runs are not on record, or a list of
// runs. If a run has no owner and the engine knows more than the record, status() reconciles the run first
// (app/reconcile.hpp).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "combu/analysis.hpp"
#include "combu/progress.hpp"
#include "combu/session.hpp"

namespace combu {

struct StatusQuery {
  SelectionOptions selection;  // chooses a run; without a run, experiment and file, status() lists the runs
  std::string where;           // a condition; empty: none
  std::string address;         // only runs on this engine; empty: runs on all engines
  std::optional<std::size_t> runs_max;  // as RunListQuery::rows_max
  bool all_runs = false;
  std::size_t trials_max = 0;  // maximum number of trials that the listener shows; 0: all
  bool all_details = false;    // read all details of each trial
  // add the last line of the log to each failure, then show equal failures in one row
  bool join_failures = false;
};

// status() calls at most one of these functions, and only once. The session is open during the call.
struct StatusListener {
  // `unrecorded`: containers in the selection whose runs are not on record.
  std::function<void(const RunRow& run, std::span<const TrialRow> trials,
                     std::span<const Observation> unrecorded)>
      trials;
  std::function<void(std::span<const Observation> containers)> containers;
  std::function<void(std::span<const RunRow> runs)> runs;
};

// If the record cannot be read, shows an error on `progress` and uses only the engine's listing. Throws
// Error.
[[nodiscard]] Result status(const Invocation& invocation, Progress& progress, const OpenSession& open_session,
                            const StatusQuery& query, const StatusListener& listener);

}  // namespace combu
