#include "app/trial_row.hpp"

namespace combu {

void add_sighting(TrialRow& row, const Sighting& seen, bool attended) {
  TrialEntry& entry = row.entry;
  if (seen.key.attempt < entry.attempt) return;
  row.created_at = seen.created_at;
  const bool has_not_begun = entry.state == TrialState::waiting || entry.state == TrialState::starting;
  const bool is_live = has_not_begun || entry.state == TrialState::running;
  if (is_live && seen.health != Health::none) row.health = seen.health;
  if (attended || !is_live) return;
  entry.attempt = seen.key.attempt;
  entry.container = seen.id;
  entry.exit_code = seen.exit_code;
  if (seen.phase == Phase::running) entry.state = TrialState::running;
  if (seen.phase != Phase::ended) return;
  const Ending ending = ending_of(seen);
  entry.state = state_of(ending);
  entry.cause = ending.cause;
  entry.reason = ending.reason;
  entry.details = ending.details;
}

void mark_missing(TrialEntry& entry) {
  if (entry.state == TrialState::starting) entry.state = TrialState::ready;
  if (entry.state != TrialState::running) return;
  entry.state = TrialState::stopped;
  entry.cause = Cause::stopped;
  entry.reason = "its container is gone, and how it ended is not on record";
  entry.details = {};
}

}  // namespace combu
