#pragma once
// How a run stands: by its record, and by what its engine lists. Reconciles: if no process is at work on the
// run and the engine knows more than the record, the function first puts that on record (app/reconcile.hpp).

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
  // The containers that the session's engine listed, also of other runs; nullopt: use the record only.
  std::optional<std::vector<Observation>> listed;
  std::string trial = {};  // only this one; then RunRow::state and ::counts are not set
  Detail detail = Detail::state;
};

[[nodiscard]] RunStatus run_status(Session& session, Record& record, RunEntry run,
                                   const RunStatusQuery& query);

// The same without the trials. A run on another engine than the session's is shown as the record has it.
[[nodiscard]] RunRow run_row(Session& session, Record& record, const RunEntry& run,
                             const std::optional<std::vector<Observation>>& listed);

// All that the engine has; nullopt, with a note, if it does not answer in time.
[[nodiscard]] std::optional<std::vector<Observation>> list_or_note(Session& session,
                                                                   const Selector& selector);

// Leaves the containers whose runs are not on record.
void leave_unrecorded(Record& record, std::vector<Observation>& containers);

}  // namespace combu
