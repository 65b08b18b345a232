#include "app/trial_row.hpp"

namespace combu {

void add_observation(TrialRow& row, const Observation& seen) {
  if (seen.key.attempt < row.entry.attempt) return;
  row.created_at = seen.created_at;
  if (may_have_attempt(row.entry.state) && seen.health != Health::none) row.health = seen.health;
  if (seen.key.attempt == row.entry.attempt) row.entry.container = seen.id;
  if (seen.phase == Phase::pending && row.entry.state == TrialState::starting)
    row.entry.reason = seen.placement.pending_reason;
  if (seen.phase == Phase::running && row.entry.state == TrialState::running && !seen.placement.host.empty())
    row.entry.reason = "on " + seen.placement.host;
}

void show_fact(TrialEntry& entry, const Fact& fact) {
  if (reports_stop(fact)) return;
  if (fact.state == TrialState::starting) {  // the new attempt has no end and no timestamps yet
    entry.ran_at.reset();
    entry.ended_at.reset();
    entry.exit_code.reset();
    entry.cause = Cause::none;
    entry.reason.clear();
    entry.details = {};
    entry.healthy = false;
  }
  entry.state = fact.state;
  entry.attempt = fact.attempt;
  entry.healthy |= fact.healthy;
  if (fact.state == TrialState::running && !fact.healthy) entry.ran_at = fact.at;
  if (is_alive(fact.state)) return;
  const bool has_ended = fact.state != TrialState::ready && fact.state != TrialState::blocked;
  if (has_ended && fact.at != Instant{}) entry.ended_at = fact.at;
  entry.exit_code = fact.exit_code;
  entry.cause = fact.cause;
  entry.reason = fact.reason;
  entry.details = fact.details;
}

}  // namespace combu
