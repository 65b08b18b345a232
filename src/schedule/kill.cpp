// Ends the trials of a run after a person has removed the run's containers.

#include <utility>
#include <vector>

#include "schedule/lifecycle.hpp"

namespace combu::schedule {

void Lifecycle::kill(const std::vector<TrialIndex>& kept) {
  interrupted = true;
  failures.halt("the run was killed");
  std::vector<bool> is_kept(trials.size());
  for (const TrialIndex trial : kept) is_kept[trial] = true;
  // The end of a trial affects other trials only after all trials have ended. So the reason of every trial is
  // the kill, not a blocked dependency.
  defer_spreading();
  for (TrialIndex trial = 0; trial < trials.size(); ++trial)
    if (!is_kept[trial] && !is_over(trials.state(trial))) end_killed(trial);
  spread_all();
}

// A trial whose last attempt failed by itself keeps the cause and reason of that failure.
void Lifecycle::end_killed(TrialIndex trial) {
  const TrialState state = trials.state(trial);
  if (const Fact* failure = failures.last(trial)) {
    trials.set_attempt(trial, failure->attempt);
    finish(*failure);
  } else if (state == TrialState::waiting || state == TrialState::ready) {
    block_halted(trial);
  } else if (state == TrialState::collecting) {
    AttemptEnd end = outputs.abandon(trial);
    if (end.cause == Cause::none) end.cause = Cause::stopped;
    EndDetails details = details_of(end);
    details.next = Next::lost;
    finish({.trial = trial,
            .state = state_after(end.cause),
            .cause = end.cause,
            .exit_code = end.exit_code,
            .reason = std::move(end.reason),
            .details = std::move(details)});
  } else if (is_alive(state)) {
    finish({.trial = trial,
            .state = TrialState::stopped,
            .cause = Cause::stopped,
            .reason = "removed by `combu kill`"});
  } else {  // the trial is retrying, and the end of its last attempt is not known
    finish({.trial = trial, .state = TrialState::stopped});
  }
}

}  // namespace combu::schedule
