#pragma once
// The use case of `ps`: reports the trials of a run, containers whose runs are not on record, or the runs.
// Reconciles: if no process drives a run and the engine knows more than the record, status() first puts
// that on record (app/reconcile.hpp).

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
  SelectionOptions selection;           // a run; none, and no file: the runs
  std::string where;                    // a condition; empty: none
  std::string address;                  // only runs on this engine; empty: on any
  std::optional<std::size_t> runs_max;  // as RunListQuery::rows_max, like the next one
  bool all_runs = false;
  std::size_t trials_max = 0;  // trials that the listener shows; 0: all
  bool all_details = false;    // of each trial
  bool join_failures = false;  // equal failures are one row, each with the last line of its log
};

// Called within the session: at most one of the three, once.
struct StatusListener {
  // `unrecorded`: containers that the selection means and whose runs are not on record.
  std::function<void(const RunRow& run, std::span<const TrialRow> trials,
                     std::span<const Observation> unrecorded)>
      trials;
  std::function<void(std::span<const Observation> containers)> containers;
  std::function<void(std::span<const RunRow> runs)> runs;
};

// A record that cannot be read is an error on `progress`; the engine answers without it. Throws Error.
[[nodiscard]] Result status(const Invocation& invocation, Progress& progress, const OpenSession& open_session,
                            const StatusQuery& query, const StatusListener& listener);

}  // namespace combu
