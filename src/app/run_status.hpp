#pragma once
// The status of a run, from the record and from the engine's listing. If the run has no owner and the engine
// knows more than the record, combu reconciles the run first (app/reconcile.hpp).

#include <optional>
#include <string>
#include <vector>

#include "combu/analysis.hpp"
#include "combu/record.hpp"
#include "combu/session.hpp"

namespace combu {

struct RunStatus {
  RunRow run;
  std::vector<TrialRow> trials;  // in the experiment's order
};

struct RunStatusQuery {
  // The containers of this run and of other runs that the session's engine listed; nullopt: use only the
  // record.
  std::optional<std::vector<Observation>> listed;
  // The only trial to read; RunRow::state and RunRow::counts are then not set. If empty, read all trials.
  std::string trial = {};
  Detail detail = Detail::state;
};

[[nodiscard]] RunStatus run_status(Session& session, Record& record, RunEntry run,
                                   const RunStatusQuery& query);

// Returns the row of the run for a list of runs. If the run is on another engine than the session, uses only
// the record.
[[nodiscard]] RunRow run_row(Session& session, Record& record, const RunEntry& run,
                             const std::optional<std::vector<Observation>>& listed);

// Lists the attempts on the engine. If the engine does not answer in time, sets `why` and returns nullopt.
[[nodiscard]] std::optional<std::vector<Observation>> try_to_list(Session& session, const Selector& selector,
                                                                  std::string& why);
// Lists the attempts on the engine. If the engine does not answer in time, prints a note and returns nullopt.
[[nodiscard]] std::optional<std::vector<Observation>> list_or_note(Session& session,
                                                                   const Selector& selector);

// Removes from `containers` the containers whose runs are on record.
void leave_unrecorded(Record& record, std::vector<Observation>& containers);

}  // namespace combu
